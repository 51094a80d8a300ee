"""Detects numbers such as 1e-300000000 in DECIMAL fields: Spark would compute all their digits.

That takes minutes or hours, and blocks the whole topic. No DECIMAL can represent such a number, so a
record with one is malformed. The text is searched first, and its fields only if it may contain one.
"""

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType

from strom.pipelines.definitions.stream import Stream

HUGE_EXPONENT = "a number has an exponent of more than 4 digits"
_EXPONENT = "[0-9.][eE][+-]?0*[1-9][0-9]{4,}"
_JSON_NUMBER = rf"[:\[,]\s*-?[0-9.]*{_EXPONENT}\s*[,}}\]]"
_LOST = r'[^0-9.]0\.0"|Infinity'
"""Spark converts such a JSON number to a double before it returns it as a string."""


def has_huge_exponent(stream: Stream, value: Column, csv_options: dict[str, str]) -> Column | None:
    """Whether a DECIMAL of a JSON or CSV record has such an exponent; None if it has no DECIMAL."""
    schema: StructType = StructType.fromDDL(stream.ddl)  # type: ignore[assignment]
    texts = _decimals_as_text(schema)
    if not isinstance(texts, StructType):
        return None
    text = value.cast("string")
    if stream.format == "json":
        decimals = sf.to_json(sf.from_json(text, texts))
        huge = decimals.rlike(_EXPONENT) | (text.rlike(_JSON_NUMBER) & decimals.rlike(_LOST))
    else:
        huge = _decimals_of_csv(text, schema, csv_options).rlike(_EXPONENT)
    suspicious = text.rlike(_EXPONENT)
    return sf.when(suspicious, sf.coalesce(huge, sf.lit(False))).otherwise(False)


def _decimals_of_csv(text: Column, schema: "StructType", options: dict[str, str]) -> Column:
    row = sf.from_csv(text, ", ".join(f"`{name}` STRING" for name in schema.names), options)
    columns = [one.name for one in schema.fields if _decimals_as_text(one.dataType)]
    return sf.concat_ws(",", *(row[name] for name in columns))


def _decimals_as_text(kind: DataType) -> DataType | None:
    """The part of a type that contains decimals, with strings instead; None if it has none."""
    from pyspark.sql.types import (
        ArrayType,
        DecimalType,
        MapType,
        StringType,
        StructField,
        StructType,
    )

    if isinstance(kind, DecimalType):
        return StringType()
    if isinstance(kind, ArrayType):
        item = _decimals_as_text(kind.elementType)
        return ArrayType(item) if item else None
    if isinstance(kind, MapType):
        value = _decimals_as_text(kind.valueType)
        return MapType(StringType(), value) if value else None
    if isinstance(kind, StructType):
        found = [(one.name, _decimals_as_text(one.dataType)) for one in kind.fields]
        fields = [StructField(name, inner) for name, inner in found if inner]
        return StructType(fields) if fields else None
    return None
