import pytest

from strom.model.address_limits import normalized_address, parse_address_limits
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError


def test_limits_are_by_address_in_any_notation():
    limits = parse_address_limits("x", ("10.0.0.1:5", "0:0::1:7", "::ffff:10.0.0.2:9"))
    assert limits == {"10.0.0.1": 5, "::1": 7, "10.0.0.2": 9}


@pytest.mark.parametrize("item", ["10.0.0.1", "localhost:5", "10.0.0.1:many", ":5", ""])
def test_a_malformed_limit_is_refused_where_it_is_set(item):
    with pytest.raises(ApiError, match=r"max\.connections\.per\.ip\.overrides"):
        BrokerSettings().override({"max.connections.per.ip.overrides": item or ":"})


@pytest.mark.parametrize(
    ("host", "expected"),
    [("::FFFF:127.0.0.1", "127.0.0.1"), ("fe80::1%eth0", "fe80::1"), ("?", "?")],
)
def test_an_address_has_one_text(host, expected):
    assert normalized_address(host) == expected
