"""Schemas with values that fit them, for laws about all of them."""

import datetime as dt

from hypothesis import strategies as st

from strom.connect.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    array,
    decimal,
    mapping,
    struct,
)
from strom.connect.logical_values import unscaled_to_decimal

leaves = st.sampled_from(
    [
        (INT32, st.integers(-(2**31), 2**31 - 1)),
        (INT64, st.integers(-(2**63), 2**63 - 1)),
        (FLOAT64, st.floats(allow_nan=False, allow_infinity=False)),
        (BOOLEAN, st.booleans()),
        (STRING, st.text(max_size=5)),
        (BYTES, st.binary(max_size=5)),
        (decimal(2), st.integers(-(10**30), 10**30).map(lambda n: unscaled_to_decimal(n, 2))),
        (DATE, st.dates()),
        (TIME, st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
        (
            TIMESTAMP,
            st.datetimes(timezones=st.just(dt.UTC)).map(
                lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
            ),
        ),
    ]
)


def nested(inner):
    return st.one_of(
        inner.map(lambda pair: (array(pair[0]), st.lists(pair[1], max_size=3))),
        inner.map(
            lambda pair: (
                mapping(STRING, pair[0]),
                st.dictionaries(st.text(max_size=3), pair[1], max_size=3),
            )
        ),
        inner.map(
            lambda pair: (
                mapping(INT32, pair[0]),
                st.dictionaries(st.integers(-9, 9), pair[1], max_size=3),
            )
        ),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda pairs: (
                struct({f"f{i}": schema for i, (schema, _) in enumerate(pairs)}),
                st.fixed_dictionaries({f"f{i}": value for i, (_, value) in enumerate(pairs)}),
            )
        ),
    )


shaped = st.recursive(leaves, nested, max_leaves=5).flatmap(
    lambda pair: st.tuples(st.just(pair[0]), pair[1])
)
