"""Parses Avro records with Spark's from_avro, each with the schema that it was written with."""

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro

from strom.pipelines.definitions.avro import parse_avro
from strom.pipelines.definitions.stream import RECORD_COLUMNS, Stream
from strom.pipelines.schemas import writer_schemas
from strom.pipelines.spark.valid_text import is_valid_text

_READ = "_read"
"""A field of the reader schema only: its default marks a decoded record; null means decoding failed."""
_ID = "_schema_id"
# Confluent's wire format: magic byte 0, schema id in 4 bytes, then the Avro data.
_FRAMED = "(length(value) >= 5 AND hex(substring(value, 1, 1)) = '00')"
_FRAME_ID = (
    f"CASE WHEN {_FRAMED} THEN CAST(conv(hex(substring(value, 2, 4)), 16, 10) AS BIGINT) END"
)


def parse_avro_records(
    stream: Stream, raw: DataFrame, record: Sequence[Column], problem: str
) -> DataFrame:
    """All records with the columns of the stream; column `problem` is the reason if one is malformed."""
    reader = _with_marker(stream.schema)
    if stream.registry is None:
        read = _from_avro("value", stream.schema, reader)
        reason = sf.lit("not Avro of the schema")
    else:
        raw = raw.withColumn(_ID, sf.expr(_FRAME_ID))
        known = writer_schemas(stream.registry, _ids_in(raw))
        read, reason = _by_schema_id(known, reader), _reason_of_framed(known)
    rows = raw.select(
        sf.inline(sf.array(read)), *record, sf.col("value").alias("_raw"), reason.alias("_reason")
    )
    missing = sf.when(sf.col("_raw").isNull(), sf.lit("the record has no value"))
    wrong = missing.when(sf.col(_READ).isNull(), sf.col("_reason"))
    # Avro decoders do not validate UTF-8, and DuckDB fails on files with invalid strings.
    for one in rows.schema.fields:
        valid = is_valid_text(sf.col(f"`{one.name}`"), one.dataType)
        if valid is not None and one.name not in {"_reason", *RECORD_COLUMNS}:
            wrong = wrong.when(~valid, sf.lit(f"{one.name} is not valid UTF-8"))
    if stream.time:
        no_time = sf.lit(f"no event time in {stream.time}")
        wrong = wrong.when(sf.col(stream.time).isNull(), no_time)
    marked = rows.withColumn(problem, wrong).drop(_READ, "_reason")
    return marked.withColumn("_raw", sf.when(sf.col(problem).isNotNull(), sf.col("_raw")))


def _by_schema_id(known: dict[int, str | None], reader: str) -> Column:
    """Decode each record with the schema of its id; null if the id is unknown."""
    payload = "substring(value, 6)"
    read = sf.when(sf.lit(False), _from_avro(payload, reader, reader))
    for number, writer in known.items():
        if writer is not None:
            read = read.when(sf.col(_ID) == number, _from_avro(payload, writer, reader))
    return read


def _reason_of_framed(known: dict[int, str | None]) -> Column:
    unknown = [number for number, writer in known.items() if writer is None]
    return (
        sf.when(sf.col(_ID).isNull(), sf.lit("no schema id before the data"))
        .when(
            sf.col(_ID).isin(unknown),
            sf.concat(sf.lit("the registry has no Avro schema "), sf.col(_ID)),
        )
        .otherwise(sf.concat(sf.lit("not readable as Avro of schema "), sf.col(_ID)))
    )


def _from_avro(data: str, writer: str, reader: str) -> Column:
    return from_avro(sf.expr(data), writer, {"mode": "PERMISSIVE", "avroSchema": reader})


def _ids_in(raw: DataFrame) -> list[int]:
    """The schema ids of these records, read in a job of its own: from_avro needs its schemas before."""
    found = raw.select(_ID).where(f"{_ID} IS NOT NULL").distinct().collect()
    return sorted(row[0] for row in found)


def _with_marker(schema: str) -> str:
    parsed = parse_avro(schema)
    marker = {"name": _READ, "type": "boolean", "default": True}
    return json.dumps({**parsed, "fields": [*parsed["fields"], marker]})
