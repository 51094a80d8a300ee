"""DescribeConfigs: what clients do not get to see."""

from kio.schema.errors import ErrorCode

from strom.testing import LocalBroker
from tests.conformance.calls import BROKER_RESOURCE
from tests.conformance.raw import RawClient


def test_a_password_is_sensitive_and_has_no_value():
    with (
        LocalBroker(settings={"amqp.password": "s3cret"}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        wanted = {
            "resource_type": BROKER_RESOURCE,
            "resource_name": "1",
            "configuration_keys": None,
        }
        (answer,) = client.call(
            "describe_configs",
            4,
            resources=[wanted],
            include_synonyms=True,
            include_documentation=True,
        ).results
    assert answer.error_code is ErrorCode.none
    assert "s3cret" not in str(answer)
    (password,) = [one for one in answer.configs if one.name == "amqp.password"]
    assert password.is_sensitive
    assert password.value is None
    assert {synonym.value for synonym in password.synonyms} == {None}
    assert not any(one.is_sensitive for one in answer.configs if one is not password)
