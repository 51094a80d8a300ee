"""Rows of a stream's schema from raw records; what is malformed is marked, not dropped."""

from typing import TYPE_CHECKING

from strom.pipelines.definitions.stream import Stream
from strom.pipelines.spark.avro import parse_avro_records

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PROBLEM = "_problem"
"""The column that says what is wrong with a record; null for good ones."""
_CORRUPT = "_corrupt"


def parse(stream: Stream, raw: "DataFrame") -> "DataFrame":
    """All records with the columns of the stream and PROBLEM."""
    from pyspark.sql import functions as sf

    record = [
        sf.col("key").alias("_key"),
        sf.col("partition").alias("_partition"),
        sf.col("offset").alias("_offset"),
        sf.col("timestamp").alias("_timestamp"),
    ]
    if stream.format == "avro":
        return parse_avro_records(stream, raw, record, PROBLEM)
    if stream.format in {"string", "raw"}:
        kind = "string" if stream.format == "string" else "binary"
        value = sf.col("value").cast(kind).alias("value")
        missing = sf.when(sf.col("value").isNull(), sf.lit("the record has no value"))
        return raw.select(value, *record, missing.alias(PROBLEM), sf.col("value").alias("_raw"))
    schema = f"{stream.ddl}, {_CORRUPT} STRING"
    options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
    text = sf.col("value").cast("string")
    read = sf.from_json if stream.format == "json" else sf.from_csv
    # `inline` keeps the optimiser from parsing anew in every condition on the parsed columns.
    parsed = sf.inline(sf.array(read(text, schema, options)))
    rows = raw.select(parsed, *record, sf.col("value").alias("_raw"))
    marked = rows.withColumn(PROBLEM, _problem(stream)).drop(_CORRUPT)
    # Only a dead letter needs its bytes: what is parsed is kept in memory for all views.
    return marked.withColumn("_raw", sf.when(sf.col(PROBLEM).isNotNull(), sf.col("_raw")))


def good(rows: "DataFrame") -> "DataFrame":
    """The rows that a view sees."""
    from pyspark.sql import functions as sf

    return rows.where(sf.col(PROBLEM).isNull()).drop(PROBLEM, "_raw")


def dead_rows(rows: "DataFrame") -> "DataFrame":
    """The malformed records, each with its place and reason."""
    from pyspark.sql import functions as sf

    place = ["_partition", "_offset", "_timestamp", "_key"]
    malformed = rows.where(sf.col(PROBLEM).isNotNull())
    return malformed.select(*place, sf.col("_raw").alias("value"), sf.col(PROBLEM).alias("reason"))


def _problem(stream: Stream) -> "Column":
    from pyspark.sql import functions as sf

    problem = sf.when(sf.col("_raw").isNull(), sf.lit("the record has no value")).when(
        sf.col(_CORRUPT).isNotNull(), sf.lit(f"not {stream.format} of the schema")
    )
    if stream.time:
        missing = sf.lit(f"no event time in {stream.time}")
        problem = problem.when(sf.col(stream.time).isNull(), missing)
    return problem
