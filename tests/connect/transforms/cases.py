"""Transforms, their settings, and records to apply them to: what Kafka and strom must agree on."""

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

from strom.connect.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    array,
    decimal,
    mapping,
    struct,
)
from tests.connect.transforms.asked import record

FLOAT32 = Schema(Type.FLOAT32)
INT8, INT16 = Schema(Type.INT8), Schema(Type.INT16)
MOMENT = dt.datetime(2024, 2, 29, 13, 5, 7, 89000, tzinfo=dt.UTC)
EARLY = dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC)
WITH_DEFAULT = Schema(Type.STRING, optional=True, default="none given")
POINT = struct({"x": INT32, "y": Schema(Type.INT32, optional=True)}, name="point")
ORDER = Schema(
    Type.STRUCT,
    name="order",
    version=7,
    doc="an order",
    parameters=(("origin", "shop"),),
    fields=(
        Field("id", INT64),
        Field("customer", OPTIONAL_STRING),
        Field("note", WITH_DEFAULT),
        Field("paid", BOOLEAN),
        Field("total", decimal(2)),
        Field("at", TIMESTAMP),
        Field("where", Schema(Type.STRUCT, optional=True, fields=POINT.fields)),
        Field("tags", array(STRING)),
    ),
)
ORDER_VALUE = {
    "id": 17,
    "customer": "Ada",
    "note": None,
    "paid": True,
    "total": Decimal("12.50"),
    "at": MOMENT,
    "where": {"x": 1, "y": None},
    "tags": ["new", "gift"],
}
TYPES = struct(
    {
        "int8": INT8,
        "int16": INT16,
        "int32": INT32,
        "int64": INT64,
        "float32": FLOAT32,
        "float64": FLOAT64,
        "boolean": BOOLEAN,
        "string": STRING,
        "bytes": BYTES,
        "decimal": decimal(1),
        "date": DATE,
        "time": TIME,
        "timestamp": TIMESTAMP,
    }
)
TYPES_VALUE = {
    "int8": -5,
    "int16": 300,
    "int32": 70_000,
    "int64": 5_000_000_000,
    "float32": 1.5,
    "float64": -2.75,
    "boolean": True,
    "string": "12",
    "bytes": b"\x01\x02",
    "decimal": Decimal("30.7"),
    "date": dt.date(2024, 2, 29),
    "time": dt.time(13, 5, 7, 89000),
    "timestamp": MOMENT,
}
PLAIN = {"id": 17, "customer": "Ada", "note": None, "nested": {"x": 1, "deep": {"y": [1, 2]}}}
order = record((ORDER, ORDER_VALUE), key=(STRING, "k"), timestamp=1_700_000_000_123)
plain = record((None, PLAIN), key=(None, {"k": 1}), timestamp=1_700_000_000_123)
source = record((ORDER, ORDER_VALUE), offset=None, partition=None)
types = record((TYPES, TYPES_VALUE))
tombstone = record(key=(STRING, "k"))
text = record((STRING, "hello"))
bare_number = record((None, 12), key=(None, 34))
headed = record(
    (ORDER, ORDER_VALUE), headers=[("a", (STRING, "1")), ("b", (INT32, 2)), ("a", (None, None))]
)


class Case(NamedTuple):
    name: str
    settings: dict[str, str]
    given: Any


def both(name: str, settings: dict[str, str], *records: Any) -> list[Case]:
    return [Case(name, settings, given) for given in records]


INSERT = [
    *both("InsertField$Value", {"topic.field": "t"}, order, plain, tombstone, source, text),
    *both("InsertField$Value", {"topic.field": "t!", "partition.field": "p?"}, order, plain),
    *both("InsertField$Value", {"partition.field": "p"}, source, order),
    *both("InsertField$Value", {"partition.field": "p!"}, source, order),
    *both("InsertField$Value", {"offset.field": "o"}, order, source, plain),
    *both("InsertField$Value", {"timestamp.field": "ts"}, order, plain, source),
    *both("InsertField$Value", {"timestamp.field": "ts!"}, order, source),
    *both("InsertField$Value", {"static.field": "s", "static.value": "v"}, order, plain),
    *both("InsertField$Value", {"static.field": "id", "static.value": "v"}, order, plain),
    *both("InsertField$Value", {"static.field": "s"}, order),
    *both("InsertField$Value", {}, order),
    *both("InsertField$Value", {"topic.field": "t", "replace.null.with.default": "false"}, order),
    *both("InsertField$Key", {"topic.field": "t"}, order, plain, tombstone),
]
REPLACE = [
    *both("ReplaceField$Value", {"exclude": "customer,note"}, order, plain, tombstone, text),
    *both("ReplaceField$Value", {"include": "id,tags"}, order, plain),
    *both("ReplaceField$Value", {"include": "id,tags", "exclude": "id"}, order, plain),
    *both("ReplaceField$Value", {"renames": "id:number,customer:who"}, order, plain),
    *both("ReplaceField$Value", {"renames": "id:customer"}, order),
    *both("ReplaceField$Value", {"renames": "id"}, order),
    *both("ReplaceField$Value", {"include": "absent"}, order, plain),
    *both("ReplaceField$Value", {"include": "note", "replace.null.with.default": "false"}, order),
    *both("ReplaceField$Key", {"exclude": "k"}, plain, order),
]
MASK = [
    *both("MaskField$Value", {"fields": "id,customer,paid"}, order, plain, tombstone, text),
    *both("MaskField$Value", {"fields": "tags"}, order),
    *both("MaskField$Value", {"fields": "nested"}, plain),
    *both("MaskField$Value", {"fields": "where"}, order),
    *both("MaskField$Value", {"fields": "absent"}, order, plain),
    *both("MaskField$Value", {"fields": "customer", "replacement": "***"}, order, plain),
    *both("MaskField$Value", {"fields": "id", "replacement": "123"}, order, plain),
    *both("MaskField$Value", {"fields": "id", "replacement": "abc"}, order, plain),
    *both("MaskField$Value", {"fields": "paid", "replacement": "1"}, order),
    *both("MaskField$Value", {"fields": "int8,int16,float32,float64", "replacement": "300"}, types),
    *both("MaskField$Value", {"fields": "int8,int16,int32,float32,float64"}, types),
    *both("MaskField$Value", {"fields": "date,time,timestamp,string"}, types),
    *both("MaskField$Value", {"fields": "bytes"}, types),
    *both("MaskField$Value", {"fields": "decimal", "replacement": "1.5"}, types),
    *both("MaskField$Value", {"fields": "note"}, order),
    *both("MaskField$Value", {"fields": "note", "replace.null.with.default": "false"}, order),
    *both("MaskField$Key", {"fields": "k"}, plain),
    *both("MaskField$Value", {}, order),
]
KEYS = [
    *both("ValueToKey", {"fields": "id"}, order, plain, tombstone, text),
    *both("ValueToKey", {"fields": "tags,id"}, order),
    *both("ValueToKey", {"fields": "absent"}, order, plain),
    *both("ValueToKey", {"fields": "note", "replace.null.with.default": "false"}, order),
    *both("ValueToKey", {"fields": "note"}, order, plain),
    *both("HoistField$Value", {"field": "line"}, text, order, plain, tombstone, bare_number),
    *both("HoistField$Key", {"field": "key"}, text, order, plain, tombstone),
    *both("HoistField$Key", {}, text),
    *both("ExtractField$Value", {"field": "id"}, order, plain, tombstone, text, bare_number),
    *both("ExtractField$Value", {"field": "absent"}, order, plain),
    *both("ExtractField$Value", {"field": "note"}, order),
    *both("ExtractField$Value", {"field": "note", "replace.null.with.default": "false"}, order),
    *both("ExtractField$Value", {"field": "where.x", "field.syntax.version": "V2"}, order, plain),
    *both("ExtractField$Value", {"field": "where.x"}, order),
    *both("ExtractField$Value", {"field": "nested.deep.y", "field.syntax.version": "V2"}, plain),
    *both("ExtractField$Value", {"field": "id.x", "field.syntax.version": "V2"}, order, plain),
    *both(
        "ExtractField$Value",
        {"field": "`a.b`.c", "field.syntax.version": "V2"},
        record((None, {"a.b": {"c": 5}})),
        record((None, {"a": {"b": {"c": 5}}})),
    ),
    *both(
        "ExtractField$Value",
        {"field": "`a\\`.b`", "field.syntax.version": "V2"},
        record((None, {"a`.b": 5})),
    ),
    *both("ExtractField$Value", {"field": "`a", "field.syntax.version": "V2"}, plain),
    *both("ExtractField$Key", {"field": "k"}, plain, order),
    *both("SetSchemaMetadata$Value", {"schema.name": "n"}, order, plain, tombstone),
    *both("SetSchemaMetadata$Value", {"schema.name": "n", "schema.version": "3"}, order),
    *both("SetSchemaMetadata$Value", {"schema.version": "3"}, order),
    *both("SetSchemaMetadata$Value", {}, order),
    *both(
        "SetSchemaMetadata$Key", {"schema.name": "n"}, plain, record(key=(POINT, {"x": 1, "y": 2}))
    ),
]
ROUTES = [
    *both("RegexRouter", {"regex": "(.*)", "replacement": "$1-copy"}, order, tombstone),
    *both("RegexRouter", {"regex": "ord(.*)", "replacement": "$1"}, order),
    *both("RegexRouter", {"regex": "ord", "replacement": "x"}, order),
    *both("RegexRouter", {"regex": "(?<head>ord)(.*)", "replacement": "${head}.$2$10"}, order),
    *both("RegexRouter", {"regex": "(o|or)(.*)", "replacement": "\\$$1\\\\"}, order),
    *both("RegexRouter", {"regex": "o|orders", "replacement": "x"}, order),
    *both("RegexRouter", {"regex": "[a-z]+", "replacement": "$1"}, order),
    *both("RegexRouter", {"regex": "\\p{Lower}+", "replacement": "lower"}, order),
    *both("RegexRouter", {"regex": "\\Qorders\\E", "replacement": "quoted"}, order),
    *both("RegexRouter", {"regex": "(", "replacement": "x"}, order),
    *both("RegexRouter", {"regex": "(?i)ORDERS", "replacement": "x"}, order),
    *both("RegexRouter", {"regex": "(a)?orders", "replacement": "[$1]"}, order),
    *both("TimestampRouter", {}, order, source),
    *both("TimestampRouter", {"topic.format": "${timestamp}_${topic}"}, order),
    *both("TimestampRouter", {"timestamp.format": "yyyy-MM-dd'T'HH:mm:ss.SSSX"}, order),
    *both("TimestampRouter", {"topic.format": "fixed"}, order),
    *both("Filter", {}, order, tombstone),
]
FLAT = struct(
    {
        "a": INT32,
        "in": Schema(
            Type.STRUCT,
            optional=True,
            fields=(
                Field("b", STRING),
                Field("c", Schema(Type.STRUCT, fields=(Field("d", WITH_DEFAULT),))),
            ),
        ),
    },
    name="flat",
)
DEFAULTED = struct({"q": Schema(Type.INT32, optional=True, default=5), "r": INT32})
FLATTEN = [
    *both("Flatten$Value", {}, order, plain, tombstone, text, types),
    *both("Flatten$Value", {"delimiter": "_"}, order, plain),
    *both(
        "Flatten$Value",
        {},
        record((FLAT, {"a": 1, "in": {"b": "x", "c": {"d": None}}})),
        record((FLAT, {"a": 1, "in": None})),
        record((Schema(Type.STRUCT, optional=True, fields=FLAT.fields), {"a": 1, "in": None})),
        record((DEFAULTED, {"q": None, "r": 1})),
        record((struct({"m": mapping(STRING, INT32)}), {"m": {"a": 1}})),
        record((struct({"l": array(POINT)}), {"l": [{"x": 1, "y": 2}]})),
        record((None, {"a": {}, "b": [1, {"c": 2}], "d": None})),
        record((None, [1])),
    ),
    *both("Flatten$Key", {}, plain, order),
]
CAST = [
    *[
        case
        for target in (
            *("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"),
        )
        for field in TYPES_VALUE
        for case in both("Cast$Value", {"spec": f"{field}:{target}"}, types)
    ],
    *both("Cast$Value", {"spec": "id:string,paid:int8"}, order),
    *both("Cast$Value", {"spec": "id:string,customer:boolean,absent:int8"}, plain),
    *both("Cast$Value", {"spec": "nested:string"}, plain),
    *both("Cast$Value", {"spec": "where:string"}, order),
    *both("Cast$Value", {"spec": "note:boolean"}, order),
    *both("Cast$Value", {"spec": "note:boolean", "replace.null.with.default": "false"}, order),
    *both("Cast$Value", {"spec": "string"}, text, bare_number, order, tombstone),
    *both("Cast$Value", {"spec": "int32"}, text, bare_number),
    *both("Cast$Value", {"spec": "float64"}, bare_number, record((TIMESTAMP, MOMENT))),
    *both(
        "Cast$Value", {"spec": "int64"}, record((TIMESTAMP, MOMENT)), record((DATE, MOMENT.date()))
    ),
    *both("Cast$Key", {"spec": "string"}, bare_number, order),
    *both("Cast$Value", {"spec": "wrong"}, order),
    *both("Cast$Value", {"spec": "id:bytes"}, order),
    *both("Cast$Value", {"spec": "id:int8,string"}, order),
    *both("Cast$Value", {"spec": "q:string"}, record((DEFAULTED, {"q": None, "r": 1}))),
    *[
        case
        for target in ("int8", "int32", "int64", "float32", "boolean")
        for given in (
            *(1e300, -1e300, 3.99, -3.99, 2.0**31, 1e10, float("nan")),
            *("12", "+7", "-128", "128", " 1", "1_0", "1.5", "1f", "NaN", "-Infinity", "true", ""),
            *(True, 2**40, -(2**40), 0),
        )
        for case in both("Cast$Value", {"spec": f"v:{target}"}, record((None, {"v": given})))
        if given == given
    ],
    *[
        Case("Cast$Value", {"spec": "string"}, record((FLOAT64, number)))
        for number in (0.1, 1e7, 9999999.0, 1e-3, 1e-4, 123456789.125, 1e300, -5.0, 4.9e-324)
    ],
    *[
        Case("Cast$Value", {"spec": "string"}, record((FLOAT32, number)))
        for number in (0.10000000149011612, 1e10, 16777216.0, 0.5, -3.25)
    ],
    *[
        Case("Cast$Value", {"spec": "string"}, record((decimal(scale), Decimal(number))))
        for scale, number in ((0, "5"), (3, "0.001"), (9, "0.000000001"), (-2, "1.2E+3"))
    ],
]
PATTERNS = (
    *("yyyy-MM-dd", "yy.M.d", "yyyyMMddHHmmssSSS", "EEE, d MMM yyyy HH:mm:ss Z", "h:mm a"),
    *("EEEE MMMM", "D", "k K H", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "'it''s' ss", "u", "z", "SSSSSS"),
)
TIMES = [
    *[
        case
        for target in ("unix", "Date", "Time", "Timestamp")
        for case in both(
            "TimestampConverter$Value",
            {"target.type": target},
            *(record((TIMESTAMP, moment)) for moment in (MOMENT, EARLY)),
            record((DATE, MOMENT.date())),
            record((TIME, MOMENT.time())),
            record((INT64, 1_709_212_307_089)),
            record((INT64, -1)),
            record((None, 1_709_212_307_089)),
            record((INT32, 5)),
            record((None, True)),
            record((Schema(Type.INT64, optional=True), None)),
            tombstone,
        )
    ],
    *[
        case
        for pattern in PATTERNS
        for case in both(
            "TimestampConverter$Value",
            {"target.type": "string", "format": pattern},
            record((TIMESTAMP, MOMENT)),
            record((TIMESTAMP, EARLY)),
        )
    ],
    *[
        Case(
            "TimestampConverter$Value",
            {"target.type": "unix", "format": pattern},
            record((STRING, written)),
        )
        for pattern, written in (
            ("yyyy-MM-dd", "2024-02-29"),
            ("yyyy-MM-dd", "2024-2-9"),
            ("yyyy-MM-dd", "2024-13-40"),
            ("yyyy-MM-dd", "2024-02-29 and more"),
            ("yyyy-MM-dd", "29.2.2024"),
            ("yyyy-MM-dd", "  2024- 02-  29"),
            ("yyyyMMddHHmmssSSS", "20240229130507089"),
            ("yyyyMMdd", "2024229"),
            ("yy-M-d", "24-2-9"),
            ("yy-M-d", "70-2-9"),
            ("yy-M-d", "1999-2-9"),
            ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "2024-02-29T13:05:07.089Z"),
            ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-02-29T13:05:07.089+02:30"),
            ("yyyy-MM-dd HH:mm:ss Z", "2024-02-29 13:05:07 -0730"),
            ("yyyy-MM-dd HH:mm:ss z", "2024-02-29 13:05:07 GMT"),
            ("yyyy-MM-dd HH:mm:ss z", "2024-02-29 13:05:07 UTC"),
            ("d MMM yyyy", "29 feb 2024"),
            ("d MMMM yyyy", "29 February 2024"),
            ("d MMM yyyy", "29 Foo 2024"),
            ("EEE, d MMM yyyy h:mm a", "Thu, 29 Feb 2024 12:30 AM"),
            ("h:mm a", "12:30 pm"),
            ("hh:mm", "11:30"),
            ("kk:mm", "24:15"),
            ("K:mm a", "0:15 PM"),
            ("D yyyy", "60 2024"),
            ("ss.SSSSSS", "07.123456"),
            ("HH:mm", "25:70"),
        )
    ],
    *[
        case
        for precision in ("seconds", "milliseconds", "microseconds", "nanoseconds")
        for case in (
            *both(
                "TimestampConverter$Value",
                {"target.type": "unix", "unix.precision": precision},
                record((TIMESTAMP, MOMENT)),
                record((TIMESTAMP, EARLY)),
                record((TIMESTAMP, dt.datetime(9000, 1, 1, tzinfo=dt.UTC))),
                record((INT64, 123_456_789)),
            ),
            *both(
                "TimestampConverter$Value",
                {"target.type": "Timestamp", "unix.precision": precision},
                record((INT64, 1_709_212_307)),
                record((INT64, -1_500)),
                record((None, 1_999_999)),
            ),
        )
    ],
    *both("TimestampConverter$Value", {"target.type": "unix", "field": "at"}, order, tombstone),
    *both("TimestampConverter$Value", {"target.type": "unix", "field": "absent"}, order, plain),
    *both("TimestampConverter$Value", {"target.type": "unix", "field": "customer"}, order, plain),
    *both("TimestampConverter$Value", {"target.type": "unix", "field": "paid"}, order),
    *both("TimestampConverter$Value", {"target.type": "Date", "field": "id"}, order, plain),
    *both("TimestampConverter$Value", {"target.type": "string", "field": "id"}, order),
    *both("TimestampConverter$Value", {"target.type": "other"}, order),
    *both("TimestampConverter$Value", {"target.type": "Date"}, order, plain, text),
    *both("TimestampConverter$Key", {"target.type": "Date"}, bare_number, order),
]
HEADERS = [
    *both("DropHeaders", {"headers": "a"}, headed, order),
    *both("DropHeaders", {"headers": "a,b"}, headed),
    *both("DropHeaders", {}, headed),
    *both("InsertHeader", {"header": "n", "value.literal": "12"}, headed, tombstone),
    *both("InsertHeader", {"header": "a", "value.literal": "text"}, headed),
    *both("InsertHeader", {"header": "a", "value.literal": "[1,2.5]"}, order),
    *both("InsertHeader", {"header": "a"}, order),
    *[
        case
        for operation in ("move", "copy")
        for case in both(
            "HeaderFrom$Value",
            {"fields": "id,note", "headers": "h1,h2", "operation": operation},
            *(headed, plain, tombstone, text),
        )
    ],
    *both(
        "HeaderFrom$Value", {"fields": "absent", "headers": "h", "operation": "move"}, order, plain
    ),
    *both("HeaderFrom$Value", {"fields": "id", "headers": "h,i", "operation": "move"}, order),
    *both("HeaderFrom$Value", {"fields": "id", "headers": "h", "operation": "steal"}, order),
    *both("HeaderFrom$Key", {"fields": "k", "headers": "h", "operation": "move"}, plain, order),
]
CASES = [
    *INSERT,
    *REPLACE,
    *MASK,
    *KEYS,
    *ROUTES,
    *FLATTEN,
    *CAST,
    *TIMES,
    *HEADERS,
]
