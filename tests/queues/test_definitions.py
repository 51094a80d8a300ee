"""Definitions as records, and back."""

import datetime as dt
import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.errors import CorruptData
from strom.queues.definitions import (
    Binding,
    Cursor,
    ExchangeDefinition,
    QueueDefinition,
    VirtualHostDefinition,
    decode,
    encode,
    key_of,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.decimals(allow_nan=False, allow_infinity=False, places=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=9), VALUES, max_size=3)
NAMES = st.text(max_size=20)
POSITIONS = st.dictionaries(st.integers(0, 9).map(str), st.integers())


@given(
    st.builds(VirtualHostDefinition, NAMES)
    | st.builds(ExchangeDefinition, NAMES, NAMES, NAMES, arguments=ARGUMENTS)
    | st.builds(QueueDefinition, NAMES, NAMES, arguments=ARGUMENTS, topic=NAMES)
    | st.builds(Binding, NAMES, NAMES, NAMES, NAMES, NAMES, ARGUMENTS)
    | st.builds(Cursor, NAMES, NAMES, POSITIONS, NAMES, st.dictionaries(NAMES, POSITIONS))
)
def test_records_say_what_was_defined(definition):
    key, value = encode(definition)
    assert decode(key, value) == definition
    assert key == key_of(definition)


def test_times_and_decimals_survive():
    arguments = {"at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "price": decimal.Decimal("1.50")}
    definition = QueueDefinition("/", "q", arguments=arguments)
    assert decode(*encode(definition)) == definition


def test_cursors_of_earlier_versions_are_read():
    cursor = decode(
        b'["cursor", "/", "x"]', b'{"vhost": "/", "exchange": "x", "positions": {"0": 7}}'
    )
    assert cursor == Cursor("/", "x", {"0": 7}, topic_id="", lagging={})


def test_bindings_that_differ_in_anything_are_others():
    one = Binding("/", "x", "queue", "q", "k", {"a": 1})
    keys = {
        key_of(one),
        key_of(Binding("/", "x", "queue", "q", "k", {"a": 2})),
        key_of(Binding("/", "x", "queue", "q", "l", {"a": 1})),
        key_of(Binding("/", "x", "exchange", "q", "k", {"a": 1})),
    }
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", b"{}"), (b'["nonsense"]', b"{}"), (b'["vhost"]', b"[]"), (b'["queue"]', b"{}")],
)
def test_what_is_no_definition_is_corrupt(key, value):
    with pytest.raises(CorruptData):
        decode(key, value)
