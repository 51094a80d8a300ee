"""Whether Spark's workers can run Python with Arrow, and what is read there if they can."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.types import parse_schema
from strom.pipelines.spark import fast_json as fast_json

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

log = logging.getLogger(__name__)

_able: dict[str, bool] = {}
_readers: "dict[tuple[str, str, tuple[tuple[str, str], ...]], Callable[[str], Column]]" = {}


def usual_json_reader(spark: "SparkSession", stream: Stream) -> "Callable[[str], Column] | None":
    """The function that reads JSON of the usual form; None where it cannot be used."""
    if stream.format != "json":
        return None
    types = parse_schema(stream.ddl)
    readable = fast_json.READ_TYPES.issuperset(types.values())
    if not readable or not workers_have_arrow(spark):
        return None
    zone = spark.conf.get("spark.sql.session.timeZone") or ""
    # A function is pickled for every object of it: the same one serves all micro-batches.
    key = spark.conf.get("spark.app.id") or "", zone, tuple(types.items())
    if key not in _readers:
        _readers[key] = _reader(zone, dict(types))
    return _readers[key]


def workers_have_arrow(spark: "SparkSession") -> bool:
    """Whether the workers have Python and pyarrow; asked once, by trying."""
    from pyspark.errors import PySparkException

    application = spark.conf.get("spark.app.id") or ""
    if application not in _able:
        reader = _reader("UTC", {"n": "int"})
        one = spark.range(1).selectExpr("CAST('{\"n\":7}' AS BINARY) AS value")
        try:
            _able[application] = one.select(reader("value").alias("row")).collect()[0].row.n == 7
        except PySparkException:
            log.info("the workers have no Python with pyarrow: Spark parses JSON by itself")
            _able[application] = False
    return _able[application]


def _reader(zone: str, types: dict[str, str]) -> "Callable[[str], Column]":
    from pyspark import cloudpickle
    from pyspark.sql.pandas.functions import arrow_udf

    # Workers need not have strom.
    cloudpickle.register_pickle_by_value(fast_json)  # type: ignore[no-untyped-call]
    fields = [f"{name} {kind}" for name, kind in [*types.items(), (fast_json.USUAL, "boolean")]]
    function = fast_json.reading_function(types, zone)
    # Deterministic functions are run again in every condition on what they return.
    reader = arrow_udf(function, returnType=", ".join(fields))  # type: ignore[call-overload]
    read: Callable[[str], Column] = reader.asNondeterministic()
    return read
