"""One value of every type: how it is declared and written, what it is in a record, and its shape."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from strom.connect.api import Schema, Type
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
)
from strom.connect.connectors.databases.postgres_types import JSON_NAME, UUID_NAME, optional

MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789123, tzinfo=UTC)
POSTGRES_TYPES: list[tuple[str, str, Any, Schema]] = [
    ("boolean", "true", True, BOOLEAN),
    ("smallint", "-32768", -32768, Schema(Type.INT16)),
    ("integer", "2147483647", 2147483647, INT32),
    ("bigint", "-9223372036854775808", -(2**63), INT64),
    ("real", "1.5", 1.5, Schema(Type.FLOAT32)),
    ("double precision", "0.1", 0.1, FLOAT64),
    ("double precision", "'Infinity'", float("inf"), FLOAT64),
    ("numeric(10, 2)", "12345678.9", Decimal("12345678.90"), decimal(2)),
    ("numeric(5)", "12345", Decimal(12345), decimal(0)),
    ("numeric(5, -2)", "1234567", Decimal(1234600), decimal(0)),
    ("numeric", "1.2300", "1.2300", STRING),
    ("text", "'a\"\\ü\n\t'", 'a"\\ü\n\t', STRING),
    ("varchar(5)", "'abc'", "abc", STRING),
    ("char(5)", "'abc'", "abc", STRING),
    ("bytea", "'\\x00ff'", b"\x00\xff", BYTES),
    ("date", "'2026-02-03'", date(2026, 2, 3), DATE),
    ("date", "'infinity'", date.max, DATE),
    ("date", "'0044-03-15 BC'", date.min, DATE),
    ("time", "'04:05:06.789123'", time(4, 5, 6, 789123), TIME),
    ("timestamp", "'2026-02-03 04:05:06.789123'", MOMENT, TIMESTAMP),
    ("timestamptz", "'2026-02-03 05:05:06.789123+01'", MOMENT, TIMESTAMP),
    ("timestamptz", "'-infinity'", datetime.min.replace(tzinfo=UTC), TIMESTAMP),
    ("json", "'{\"a\": 1}'", '{"a": 1}', Schema(Type.STRING, name=JSON_NAME, version=1)),
    ("jsonb", "'{\"a\":1}'", '{"a": 1}', Schema(Type.STRING, name=JSON_NAME, version=1)),
    (
        "uuid",
        "'6b0b2a5c-9f2b-4f9e-8d8e-000000000001'",
        "6b0b2a5c-9f2b-4f9e-8d8e-000000000001",
        Schema(Type.STRING, name=UUID_NAME, version=1),
    ),
    ("inet", "'10.0.0.1'", "10.0.0.1/32", STRING),
    ("interval", "'1 day 2 hours'", "P1DT2H", STRING),
    ("bit(3)", "B'101'", "101", STRING),
    ("int4range", "'[1,5)'", "[1,5)", STRING),
    ("integer[]", "'{1,NULL,3}'", [1, None, 3], array(optional(INT32))),
    ("text[]", """'{"a,b",NULL,"NULL",""}'""", ["a,b", None, "NULL", ""], array(optional(STRING))),
    ("timestamptz[]", "'{2026-02-03 04:05:06.789123+00}'", [MOMENT], array(optional(TIMESTAMP))),
    ("mood", "'good'", "good", STRING),
    ("price", "1.5", Decimal("1.50"), decimal(2)),
]  # fmt: skip
