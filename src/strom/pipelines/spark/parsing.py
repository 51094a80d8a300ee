"""Parses raw records to rows of a stream's schema; malformed records are marked, not dropped."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from strom.pipelines.definitions.stream import RECORD_COLUMNS, Stream
from strom.pipelines.definitions.types import parse_schema
from strom.pipelines.spark.arrow_workers import fast_json_reader
from strom.pipelines.spark.avro import parse_avro_records
from strom.pipelines.spark.fast_json import MATCHED
from strom.pipelines.spark.huge_exponents import HUGE_EXPONENT, has_huge_exponent

DEAD_LETTER = "_dead_letter"
_WHOLE_RECORDS = 1_000
_WHOLE_BYTES = 8 * 1024
"""Of a malformed record that is collected with its size; a task collects at most 8 MB of them."""
PROBLEM = "_problem"
"""The column with the reason why a record is malformed; null if it is valid."""
_CORRUPT = "_corrupt"
_ROW = "_row"
_MAX_CSV_COLUMNS = 100_000
"""With more in a record, Spark's CSV parser fails in every mode."""


def parse(stream: Stream, raw: DataFrame) -> DataFrame:
    """All records with the columns of the stream and PROBLEM."""
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
        problem = sf.when(sf.col("value").isNull(), sf.lit("the record has no value"))
        if stream.format == "string":
            invalid = ~sf.is_valid_utf8(sf.col("value").cast("string"))
            problem = problem.when(invalid, sf.lit("the value is not valid UTF-8"))
        return raw.select(value, *record, problem.alias(PROBLEM), sf.col("value").alias("_raw"))
    row = _parse_with_spark(stream)
    if reader := fast_json_reader(raw.sparkSession, stream):
        raw = raw.withColumn(MATCHED, reader("value"))
        parsed = [sf.col(f"{MATCHED}.{name}") for name in parse_schema(stream.ddl)]
        none = sf.lit(None).cast("string").alias(_CORRUPT)
        row = sf.when(sf.col(f"{MATCHED}.{MATCHED}"), sf.struct(*parsed, none)).otherwise(row)
    rows = raw.select(row.alias(_ROW), *record, sf.col("value").alias("_raw"))
    columns = [sf.col(f"{_ROW}.{name}") for name in [*parse_schema(stream.ddl), _CORRUPT]]
    named = rows.select(*columns, *RECORD_COLUMNS, "_raw")
    marked = named.withColumn(PROBLEM, _problem(stream)).drop(_CORRUPT)
    # Only dead letters need the raw bytes: parsed rows are cached in memory for all views.
    return marked.withColumn("_raw", sf.when(sf.col(PROBLEM).isNotNull(), sf.col("_raw")))


def _parse_with_spark(stream: Stream) -> Column:
    """A record parsed with from_json or from_csv."""
    schema = f"{stream.ddl}, {_CORRUPT} STRING"
    options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
    # Always true, but nondeterministic to Spark: otherwise it would parse again in every condition.
    readable = sf.spark_partition_id() >= 0
    value = sf.col("value")
    for _, cannot_be_read in _unreadable(stream, value):
        readable &= ~cannot_be_read
    text = sf.when(readable, value.cast("string"))
    if stream.format == "json":
        return sf.from_json(text, schema, options)
    return sf.from_csv(text, schema, options | {"maxColumns": str(_MAX_CSV_COLUMNS)})


def _unreadable(stream: Stream, value: Column) -> "list[tuple[str, Column]]":
    """Conditions under which Spark's parsers fail or hang, each with its reason."""
    found = []
    if stream.format == "csv":
        too_many = _has_too_many_columns(value)
        found.append((f"more than {_MAX_CSV_COLUMNS} columns", too_many))
        value = sf.when(~too_many, value)
    huge = has_huge_exponent(stream, value, {"maxColumns": str(_MAX_CSV_COLUMNS)})
    if huge is not None:
        found.append((HUGE_EXPONENT, huge))
    return found


def _has_too_many_columns(value: Column) -> Column:
    """Whether a CSV record may exceed the parser's limit of columns; quoted commas count too."""
    without = sf.replace(value.cast("string"), sf.lit(","), sf.lit(""))
    commas = sf.octet_length(value) - sf.octet_length(without)
    return sf.coalesce(
        (sf.octet_length(value) >= _MAX_CSV_COLUMNS) & (commas >= _MAX_CSV_COLUMNS), sf.lit(False)
    )


def valid_rows(rows: DataFrame) -> DataFrame:
    """The valid rows, without the columns for malformed ones."""
    return rows.where(sf.col(PROBLEM).isNull()).drop(PROBLEM, "_raw")


def malformed_records(rows: DataFrame) -> DataFrame:
    """Partition, offset and size in bytes of the malformed records, and the first of each task whole.

    Usually a micro-batch has few, so that no second job has to fetch them.
    """
    size = sf.coalesce(sf.length("_raw"), sf.lit(0)) + sf.coalesce(sf.length("_key"), sf.lit(0))
    # Spark numbers the rows of each task from a multiple of 2^33.
    number = sf.monotonically_increasing_id() % sf.lit(1 << 33)
    is_sent = (number < sf.lit(_WHOLE_RECORDS)) & (size <= sf.lit(_WHOLE_BYTES))
    letter = sf.when(is_sent, sf.struct(*_dead_columns()))
    malformed = rows.where(sf.col(PROBLEM).isNotNull())
    return malformed.select("_partition", "_offset", size.alias("bytes"), letter.alias(DEAD_LETTER))


def malformed_rows(rows: DataFrame) -> DataFrame:
    """The malformed records, each with its position and reason."""
    return rows.where(sf.col(PROBLEM).isNotNull()).select(*_dead_columns())


def _dead_columns() -> "list[Column]":
    place = [sf.col(name) for name in ("_partition", "_offset", "_timestamp", "_key")]
    return [*place, sf.col("_raw").alias("value"), sf.col(PROBLEM).alias("reason")]


def _problem(stream: Stream) -> Column:
    problem = sf.when(sf.col("_raw").isNull(), sf.lit("the record has no value")).when(
        sf.col(_CORRUPT).isNotNull(), sf.lit(f"not {stream.format} of the schema")
    )
    for reason, cannot_be_read in _unreadable(stream, sf.col("_raw")):
        problem = problem.when(cannot_be_read, sf.lit(reason))
    if stream.time:
        missing = sf.lit(f"no event time in {stream.time}")
        problem = problem.when(sf.col(stream.time).isNull(), missing)
    return problem
