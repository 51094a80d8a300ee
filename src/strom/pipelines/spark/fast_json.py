"""The fast path for JSON: regular expressions of Arrow in Spark's Python workers.

Most producers write every record with the same keys in the same order. One regular expression parses such
records at a third of the cost of Spark's own parser. It matches only what both parsers interpret alike:
strings without escapes, numbers that fit their types, timestamps in ISO 8601. Everything else (other
keys, nested values, malformed JSON) does not match and is parsed with `from_json`.
"""

import gc
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    Groups = dict[str, Any]

MATCHED = "_strom_matched"
"""The field that is true if a record matched; otherwise, all other fields are null."""
ZONE_OF_NAIVE_TIMES = "UTC"
"""Timestamps without a zone are in the session's time zone; Spark parses them if it is not this one."""
_TEXT = r'[^"\\\x00-\x1f]*'
_INTEGER = r"-?(?:0|[1-9][0-9]{0,%d})"
_DOUBLE = r"-?[1-9][0-9]{0,14}|0|-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}(?:[eE][+-]?[0-9]{1,2})?"
_DATE_TIME = (
    r"[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
)
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
_SCALAR = rf'(?:"{_TEXT}"|-?(?:0|[1-9][0-9]{{0,17}})(?:\.[0-9]{{1,17}})?|true|false|null)'
# Any number with so many digits fits the type; longer ones do not match.
_DIGITS_AFTER_FIRST = {"tinyint": 1, "smallint": 3, "int": 8, "bigint": 17}
READ_TYPES = frozenset({*_DIGITS_AFTER_FIRST, "string", "boolean", "double", "timestamp"})


# RE2 has a fast path for expressions of up to four groups.
_MAX_GROUPS = 4
_REST = "rest"


@dataclass(frozen=True)
class JsonLayout:
    """The keys of records in order, as regular expressions; each matches the rest of the previous."""

    expressions: tuple[str, ...]
    columns: frozenset[str]
    """The columns in the records. The group of a column is named by its index in the schema."""
    naive_times: frozenset[str] = frozenset()


def infer_layout(value: bytes | None, types: Mapping[str, str], zone: str) -> JsonLayout | None:
    """The layout of a record; None if the fast path does not support it."""
    try:
        pairs = json.loads(value or b"", object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pairs, _Pairs) or any(isinstance(one, list) for _, one in pairs):
        return None
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys) or not all(map(_is_plain, keys)):
        return None
    naive = frozenset(
        key
        for key, one in pairs
        if types.get(key) == "timestamp" and isinstance(one, str) and not _has_zone(one)
    )
    columns = frozenset(keys) & types.keys()
    if not columns or (naive and zone != ZONE_OF_NAIVE_TIMES):
        return None
    numbers = {name: number for number, name in enumerate(types)}
    patterns = [
        _pattern(types[key], f"c{numbers[key]}", key in naive) if key in types else _SCALAR
        for key in keys
    ]
    members = [f'"{re.escape(key)}" ?: ?{one}' for key, one in zip(keys, patterns, strict=True)]
    return JsonLayout(_expressions(members), columns, naive)


def _expressions(members: list[str]) -> tuple[str, ...]:
    """Split members into expressions of at most _MAX_GROUPS groups."""
    runs: list[list[str]] = [[]]
    for place, member in enumerate(members):
        left = sum(map(_has_group, members[place:]))
        taken = sum(map(_has_group, runs[-1]))
        if _has_group(member) and taken + min(left, 2) > _MAX_GROUPS:
            runs.append([])
        runs[-1].append(member)
    texts = ["^ ?" + " ?, ?".join(run) for run in runs]
    texts[0] = r"^\{" + texts[0].removeprefix("^")
    # The rest includes leading spaces: an optional space before it would be ambiguous.
    firsts = [f"{text} ?,(?P<{_REST}>(?s:.*))$" for text in texts[:-1]]
    return (*firsts, rf"{texts[-1]} ?\}}[\r\n]*$")


def _has_group(member: str) -> bool:
    return "(?P<" in member


class FastJsonReader:
    """Parses batches of records with the last inferred layout."""

    def __init__(self, types: Mapping[str, str], zone: str) -> None:
        self.types = dict(types)
        self.zone = zone
        self._layout: JsonLayout | None = None

    def read(self, values: "pa.Array[Any]") -> "pa.StructArray":
        """The columns of each record, and MATCHED."""
        import pyarrow as pa

        texts = _to_text(values)
        groups = _extract_groups(texts, self._layout)
        if 2 * groups[MATCHED].true_count < len(texts):
            groups = self._infer_again(values, texts, groups)
        if self._layout is not None:
            try:
                return self._convert(texts, groups, self._layout)
            except pa.ArrowInvalid:
                pass  # such as 30 February: Spark decides which record is malformed
        fields = [pa.nulls(len(values), self._arrow_type(kind)) for kind in self.types.values()]
        return self._struct(fields, pa.array([False] * len(values), pa.bool_()))

    def _infer_again(self, values: Any, texts: Any, groups: "Groups") -> "Groups":
        """Infer the layout of the first record that did not match; keep it if more records match."""
        import pyarrow.compute as pc

        unmatched = pc.index(groups[MATCHED], False).as_py()
        layout = infer_layout(values[unmatched].as_py(), self.types, self.zone)
        if layout is None or layout == self._layout:
            return groups
        other = _extract_groups(texts, layout)
        if other[MATCHED].true_count <= groups[MATCHED].true_count:
            return groups
        self._layout = layout
        return other

    def _convert(self, texts: Any, groups: "Groups", layout: JsonLayout) -> "pa.StructArray":
        import pyarrow as pa
        import pyarrow.compute as pc

        fields = []
        for number, (name, kind) in enumerate(self.types.items()):
            if name not in layout.columns:
                fields.append(pa.nulls(len(texts), self._arrow_type(kind)))
                continue
            text = groups[f"c{number}"]
            blank = pc.equal(text, "")
            if pc.any(blank).as_py():
                # The group is empty: the value is null or an empty string. Matched strings contain no
                # quotes, so the key occurs only once.
                null = pc.match_substring_regex(texts, f'"{re.escape(name)}" ?: ?null')
                text = pc.if_else(pc.and_(blank, null), None, text)
            fields.append(self._cast(text, kind, name in layout.naive_times))
        return self._struct(fields, groups[MATCHED])

    def _cast(self, text: Any, kind: str, naive: bool) -> "pa.Array[Any]":
        import pyarrow as pa
        import pyarrow.compute as pc

        if naive:
            text = pc.cast(text, pa.timestamp("us"))
        return text if kind == "string" else pc.cast(text, self._arrow_type(kind))

    def _struct(self, fields: "list[pa.Array[Any]]", matched: "pa.Array[Any]") -> "pa.StructArray":
        import pyarrow as pa

        return pa.StructArray.from_arrays([*fields, matched], names=[*self.types, MATCHED])

    def _arrow_type(self, kind: str) -> "pa.DataType":
        import pyarrow as pa

        return {
            "tinyint": pa.int8(),
            "smallint": pa.int16(),
            "int": pa.int32(),
            "bigint": pa.int64(),
            "string": pa.string(),
            "boolean": pa.bool_(),
            "double": pa.float64(),
            "timestamp": pa.timestamp("us", self.zone),
        }[kind]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as pairs in order, including duplicate keys."""


def make_reading_function(types: Mapping[str, str], zone: str) -> Callable[..., Any]:
    """The function that a worker calls with a batch of values. Its pickle is self-contained."""
    import pyarrow as pa

    reader = FastJsonReader(types, zone)

    # Spark evaluates the annotations: they must be classes, not strings.
    def read_fast_json(values: pa.Array) -> pa.Array:
        if not gc.get_freeze_count():
            # A worker runs the garbage collector over all loaded modules after every task: half of the
            # cost of a small micro-batch.
            gc.freeze()
        return reader.read(values)

    return read_fast_json


def _to_text(values: "pa.Array[Any]") -> "pa.Array[Any]":
    """Values as strings; null if not valid UTF-8."""
    import pyarrow as pa

    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decode(value.as_py()) for value in values], pa.string())


def _decode(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _extract_groups(texts: "pa.Array[Any]", layout: JsonLayout | None) -> "Groups":
    """The values of each group, and MATCHED."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if layout is None:
        return {MATCHED: pa.array([False] * len(texts), pa.bool_())}
    groups: Groups = {}
    rest = texts
    for expression in layout.expressions:
        found = pc.extract_regex(rest, expression)
        names = [field.name for field in found.type]
        groups |= zip(names, found.flatten(), strict=True)
        groups[MATCHED] = found.is_valid()
        rest = groups.pop(_REST, None)
    # A record that fails a later expression has no values of earlier ones either.
    if len(layout.expressions) > 1:
        groups |= {
            name: pc.if_else(groups[MATCHED], group, None)
            for name, group in groups.items()
            if name != MATCHED
        }
    return groups


def _pattern(kind: str, group: str, naive: bool) -> str:
    """The expression for a value of a type, with a group for its text."""
    if kind == "string":
        return f'(?:"(?P<{group}>{_TEXT})"|null)'
    if kind == "timestamp":
        return f'(?:"(?P<{group}>{_DATE_TIME}{"" if naive else _ZONE})"|null)'
    if kind == "double":
        return f"(?:(?P<{group}>{_DOUBLE})|null)"
    if kind == "boolean":
        return f"(?:(?P<{group}>true|false)|null)"
    return f"(?:(?P<{group}>{_INTEGER % _DIGITS_AFTER_FIRST[kind]})|null)"


def _is_plain(key: str) -> bool:
    return json.dumps(key, ensure_ascii=False) == f'"{key}"'


def _has_zone(text: str) -> bool:
    return re.search(rf"{_ZONE}$", text) is not None
