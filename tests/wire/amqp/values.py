"""Values for every method, table and property, derived from the declarations."""

from decimal import Decimal
from functools import cache
from typing import Any

from hypothesis import strategies as st

from strom.model.tables import Timestamp
from strom.wire.amqp.content import BasicProperties
from strom.wire.amqp.schema import Kind, Method

UINT64_MAX = 2**64 - 1
texts = st.text(st.characters(codec="utf-8"), max_size=60)
names = st.text(st.characters(codec="utf-8"), max_size=30)

decimals = st.builds(
    lambda digits, scale: Decimal(digits).scaleb(-scale),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 20),
)
plain_values = st.one_of(
    st.none(),
    st.booleans(),
    texts,
    st.binary(max_size=40),
    st.integers(0, 2**32 - 1).map(Timestamp),
    st.integers(2**32, 2**63 - 1),
    decimals,
)
"""Those for which other codecs choose the same letter as ours."""
any_values = st.one_of(
    plain_values,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.integers(0, UINT64_MAX).map(Timestamp),
)


def nested(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        values,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    )


tables = st.dictionaries(names, nested(any_values), max_size=4)
plain_tables = st.dictionaries(names, nested(plain_values), max_size=4)
properties = st.builds(
    BasicProperties,
    **{
        name: st.none() | texts
        for name in BasicProperties._fields
        if name not in {"headers", "delivery_mode", "priority", "timestamp"}
    },
    headers=st.none() | tables,
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    timestamp=st.none() | st.integers(0, UINT64_MAX),
)

BITS = {Kind.OCTET: 8, Kind.SHORT: 16, Kind.LONG: 32, Kind.LONGLONG: 63}
"""Of a delivery tag one bit less: other codecs take it for signed."""


@cache
def methods(cls: type[Method], plain: bool = False) -> st.SearchStrategy[Method]:
    """Instances of a method; if plain, only those that other codecs write alike."""
    kinds: dict[Kind, st.SearchStrategy[Any]] = {
        Kind.BIT: st.booleans(),
        Kind.SHORTSTR: texts,
        Kind.LONGSTR: texts.map(str.encode) if plain else st.binary(max_size=80),
        Kind.TABLE: plain_tables if plain else tables,
        **{kind: st.integers(0, 2**bits - 1) for kind, bits in BITS.items()},
    }
    return st.builds(cls, *(kinds[field.kind] for field in cls.FIELDS))
