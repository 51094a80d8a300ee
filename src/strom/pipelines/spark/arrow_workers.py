"""Whether Spark's workers can run Python with Arrow, and what is read there if they can."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.types import parse_schema
from strom.pipelines.spark import usual_json

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

log = logging.getLogger(__name__)

_able: dict[str, bool] = {}


def usual_json_reader(spark: "SparkSession", stream: Stream) -> "Callable[[str], Column] | None":
    """The function that reads JSON of the usual form; None where it cannot be used."""
    types = parse_schema(stream.ddl)
    if stream.format != "json" or not usual_json.READ_TYPES.issuperset(types.values()):
        return None
    return _reader(spark, dict(types)) if workers_have_arrow(spark) else None


def workers_have_arrow(spark: "SparkSession") -> bool:
    """Whether the workers have Python and pyarrow; asked once, by trying."""
    from pyspark.errors import PySparkException

    application = spark.conf.get("spark.app.id") or ""
    if application not in _able:
        reader = _reader(spark, {"n": "int"})
        one = spark.range(1).selectExpr("CAST('{\"n\":7}' AS BINARY) AS value")
        try:
            _able[application] = one.select(reader("value").alias("row")).collect()[0].row.n == 7
        except PySparkException:
            log.info("the workers have no Python with pyarrow: Spark parses JSON by itself")
            _able[application] = False
    return _able[application]


def _reader(spark: "SparkSession", types: dict[str, str]) -> "Callable[[str], Column]":
    from pyspark import cloudpickle
    from pyspark.sql.pandas.functions import arrow_udf

    # Workers need not have strom.
    cloudpickle.register_pickle_by_value(usual_json)  # type: ignore[no-untyped-call]
    zone = spark.conf.get("spark.sql.session.timeZone") or ""
    fields = [f"{name} {kind}" for name, kind in [*types.items(), (usual_json.USUAL, "boolean")]]
    function = usual_json.reading_function(types, zone)
    # Deterministic functions are run again in every condition on what they return.
    reader = arrow_udf(function, returnType=", ".join(fields))  # type: ignore[call-overload]
    read: Callable[[str], Column] = reader.asNondeterministic()
    return read
