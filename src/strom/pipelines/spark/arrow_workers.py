"""Detects whether Spark's workers can run Arrow UDFs, and parses JSON in them if so."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.types import parse_schema
from strom.pipelines.spark import fast_json

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

log = logging.getLogger(__name__)

_has_arrow: dict[str, bool] = {}
_readers: "dict[tuple[str, str, tuple[tuple[str, str], ...]], Callable[[str], Column]]" = {}


def fast_json_reader(spark: "SparkSession", stream: Stream) -> "Callable[[str], Column] | None":
    """The UDF that parses JSON on the fast path; None if the stream or the workers do not support it."""
    if stream.format != "json":
        return None
    types = parse_schema(stream.ddl)
    readable = fast_json.READ_TYPES.issuperset(types.values())
    if not readable or not workers_have_arrow(spark):
        return None
    zone = spark.conf.get("spark.sql.session.timeZone") or ""
    # Spark pickles every UDF object: all micro-batches share one.
    key = spark.conf.get("spark.app.id") or "", zone, tuple(types.items())
    if key not in _readers:
        _readers[key] = _reader(zone, dict(types))
    return _readers[key]


def workers_have_arrow(spark: "SparkSession") -> bool:
    """Whether the workers have Python and pyarrow; probed once per application with a small job."""
    from pyspark.errors import PySparkException

    application = spark.conf.get("spark.app.id") or ""
    if application not in _has_arrow:
        reader = _reader("UTC", {"n": "int"})
        one = spark.range(1).selectExpr("CAST('{\"n\":7}' AS BINARY) AS value")
        try:
            (parsed,) = one.select(reader("value").alias("row")).collect()
            _has_arrow[application] = parsed.row.n == 7
        except PySparkException:
            log.info("Spark's workers have no pyarrow: JSON is parsed with the slower from_json")
            _has_arrow[application] = False
    return _has_arrow[application]


def _reader(zone: str, types: dict[str, str]) -> "Callable[[str], Column]":
    from pyspark import cloudpickle
    from pyspark.sql.pandas.functions import arrow_udf

    # strom need not be installed on workers.
    cloudpickle.register_pickle_by_value(fast_json)  # type: ignore[no-untyped-call]
    fields = [f"{name} {kind}" for name, kind in [*types.items(), (fast_json.MATCHED, "boolean")]]
    function = fast_json.make_reading_function(types, zone)
    # Spark evaluates a deterministic UDF again in every condition on its result.
    reader = arrow_udf(function, returnType=", ".join(fields))  # type: ignore[call-overload]
    read: Callable[[str], Column] = reader.asNondeterministic()
    return read
