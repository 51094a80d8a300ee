"""Schemas as DDL (`user STRING, ms INT`), parsed without Java, with Spark's type names."""

import functools
import re
from collections.abc import Mapping
from types import MappingProxyType

from strom.model.errors import UserError

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATS = frozenset({"float", "double"})
SMALL_INTEGERS = INTEGERS - {"bigint"}

_SPELLINGS = {
    "text": "string",
    "varchar": "string",
    "bool": "boolean",
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def is_decimal(type_name: str) -> bool:
    """Whether the type is a decimal of any precision."""
    return type_name.startswith("decimal")


def is_number(type_name: str) -> bool:
    """Whether the type can be summed."""
    return type_name in INTEGERS or type_name in FLOATS or is_decimal(type_name)


def is_plain_name(text: str) -> bool:
    """Whether a text is a column's name rather than an expression."""
    return _NAME.fullmatch(text) is not None or text in {
        "_offset",
        "_partition",
        "_timestamp",
        "_key",
    }


@functools.cache
def parse_schema(ddl: str) -> Mapping[str, str]:
    """The columns of a DDL text with their types; UserError if it is invalid."""
    import sqlglot
    from sqlglot import exp

    try:
        table = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark")
    except sqlglot.errors.SqlglotError:
        raise UserError(
            f"{ddl!r} is not a schema. Example: user STRING, ms INT, at TIMESTAMP"
        ) from None
    columns: dict[str, str] = {}
    for column in table.find_all(exp.ColumnDef):
        if column.parent is None or not isinstance(column.parent, exp.Schema):
            continue
        if column.kind is None:
            raise UserError(f"Column {column.name} of the schema {ddl!r} has no type.")
        if not _NAME.fullmatch(column.name):
            raise UserError(
                f"{column.name!r} is not a valid column name: use letters, digits and _ only."
            )
        if column.name in columns:
            raise UserError(f"The schema has column {column.name} twice.")
        columns[column.name] = spark_spelling(column.kind.sql(dialect="spark"))
    if not columns:
        raise UserError(f"The schema {ddl!r} has no columns.")
    return MappingProxyType(columns)


def spark_spelling(type_text: str) -> str:
    """A type as Spark's `simpleString` writes it: `DECIMAL(10, 2)` is `decimal(10,2)`."""
    text = re.sub(r"\s*([<>,:()])\s*", r"\1", type_text.strip().lower())
    text = re.sub(r"[a-z_]+", lambda word: _SPELLINGS.get(word[0], word[0]), text)
    return "decimal(10,0)" if text == "decimal" else text
