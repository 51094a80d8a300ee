"""Numbers whose digits would fill a memory are malformed, and never computed."""

import pytest

from strom.pipelines import Stream
from strom.pipelines.spark.huge_exponents import HUGE_EXPONENT
from strom.pipelines.spark.parsing import PROBLEM, parse
from strom.pipelines.spark.reading import RAW_SCHEMA

HUGE = ["1e-300000000", "-0.1E+300000000"]
NESTED = "id STRING, prices ARRAY<STRUCT<Net: DECIMAL(10,2)>>, rates MAP<STRING, DECIMAL(4,2)>"


def problems(spark, stream, *values):
    records = [
        (stream.topic, 0, offset, None, None, one.encode(), None)
        for offset, one in enumerate(values)
    ]
    raw = spark.createDataFrame(records, RAW_SCHEMA)
    rows = parse(stream, raw).orderBy("_offset").collect()
    return [row[PROBLEM] for row in rows], [row["id"] for row in rows]


@pytest.mark.parametrize(
    ("options", "template"),
    [
        ({"schema": "id STRING, price DECIMAL(10,2)"}, '{{"id": "{}", "price": {}}}'),
        ({"schema": "id STRING, price DECIMAL(10,2)"}, '{{"id": "{}", "price": "{}"}}'),
        ({"schema": NESTED}, '{{"id": "{}", "prices": [{{"Net": 1}}, {{"Net": {}}}]}}'),
        ({"schema": NESTED}, '{{"id": "{}", "rates": {{"b": {}}}}}'),
        ({"schema": "id STRING, price DECIMAL(10,2)", "format": "csv"}, "{},{}"),
    ],
)
def test_a_decimal_with_a_huge_exponent_is_malformed(spark, options, template):
    values = [template.format("5e123456", "0.0"), template.format("b", "1e1")]
    values += [template.format("a", huge) for huge in HUGE]
    assert problems(spark, Stream("prices", **options), *values) == (
        [None, None, HUGE_EXPONENT, HUGE_EXPONENT],
        ["5e123456", "b", None, None],
    )


def test_other_types_are_not_looked_at(spark):
    stream = Stream("prices", schema="id STRING, score DOUBLE, price DECIMAL(10,2)")
    values = [f'{{"id": "a", "score": {huge}, "price": 1}}' for huge in HUGE]
    assert problems(spark, stream, *values) == ([None, None], ["a", "a"])
