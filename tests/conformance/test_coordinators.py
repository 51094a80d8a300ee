"""FindCoordinator and InitProducerId: what idempotent producers and later groups begin with."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.calls import new_producer_id, retry
from tests.conformance.raw import RawClient

GROUP = 0


def test_several_coordinators_can_be_asked_for_at_once(client: RawClient) -> None:
    names = ["one", "two", ""]

    def ask() -> Any:
        answer = client.call("find_coordinator", 6, key_type=GROUP, coordinator_keys=names)
        return answer.coordinators[0]

    retry(ask, while_code=ErrorCode.coordinator_not_available)
    answer = client.call("find_coordinator", 6, key_type=GROUP, coordinator_keys=names)
    assert [one.key for one in answer.coordinators] == names
    assert {one.error_code for one in answer.coordinators} == {ErrorCode.none}
    address = client.socket.getpeername()
    assert {(one.host, one.port) for one in answer.coordinators} == {address}


@pytest.mark.parametrize("version", [1, 3])
def test_an_unknown_kind_of_coordinator(client: RawClient, version: int) -> None:
    answer = client.call("find_coordinator", version, key="x", key_type=9)
    assert (answer.error_code, answer.node_id) == (ErrorCode.invalid_request, -1)


def test_an_unknown_kind_of_coordinator_among_many(client: RawClient) -> None:
    answer = client.call("find_coordinator", 6, key_type=9, coordinator_keys=["x"])
    assert [one.error_code for one in answer.coordinators] == [ErrorCode.invalid_request]


def test_every_producer_gets_an_id_of_its_own(client: RawClient) -> None:
    ids = [new_producer_id(client) for _ in range(10)]
    assert len(set(ids)) == 10


def init(client: RawClient, **fields: Any) -> tuple[ErrorCode, int]:
    usual = {"transactional_id": None, "transaction_timeout": 60_000}
    answer = client.call("init_producer_id", 5, **(usual | fields))
    return answer.error_code, answer.producer_epoch


def test_an_id_that_a_producer_had_is_replaced_by_a_new_one(client: RawClient) -> None:
    old = new_producer_id(client)
    answer = client.call(
        "init_producer_id",
        5,
        transactional_id=None,
        transaction_timeout=60_000,
        producer_id=old,
        producer_epoch=3,
    )
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, 0)
    assert answer.producer_id != old


@pytest.mark.parametrize(
    "fields",
    [{"producer_id": 5}, {"producer_epoch": 3}, {"transactional_id": ""}],
    ids=["id without epoch", "epoch without id", "empty transactional id"],
)
def test_half_a_producer_is_an_invalid_request(client: RawClient, fields: dict[str, Any]) -> None:
    new_producer_id(client)
    assert init(client, **fields) == (ErrorCode.invalid_request, -1)
