"""JSON of the usual form, read by Arrow in Spark's Python workers; what is odd is left to `from_json`.

Most producers write every record alike: the same keys in the same order. Such records are read by one
regular expression, for a third of what Spark's own parser costs. The expression admits only what both
readers surely understand alike: no escapes in texts, numbers that fit their types, times in ISO
8601. All else (other keys, nested values, broken JSON) is told to be odd, and `from_json` has the word.
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

USUAL = "_usual"
"""The field that says whether a record was read; its other fields are null where not."""
ZONE_OF_NAIVE_TIMES = "UTC"
"""Times without a zone are the session's; another zone than this is left to Spark."""
_TEXT = r'[^"\\\x00-\x1f]*'
_INTEGER = r"-?(?:0|[1-9][0-9]{0,%d})"
_DOUBLE = r"-?[1-9][0-9]{0,14}|0|-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}(?:[eE][+-]?[0-9]{1,2})?"
_DATE_TIME = (
    r"[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
)
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
_SCALAR = rf'(?:"{_TEXT}"|-?(?:0|[1-9][0-9]{{0,17}})(?:\.[0-9]{{1,17}})?|true|false|null)'
# Digits that fit whatever they are; longer numbers are odd.
_DIGITS_AFTER_FIRST = {"tinyint": 1, "smallint": 3, "int": 8, "bigint": 17}
READ_TYPES = frozenset({*_DIGITS_AFTER_FIRST, "string", "boolean", "double", "timestamp"})


# RE2 has a quick way for expressions of up to four groups.
_GROUPS = 4
_REST = "rest"


@dataclass(frozen=True)
class Form:
    """How records are written: regular expressions, each for what the one before leaves as its rest."""

    expressions: tuple[str, ...]
    columns: frozenset[str]
    """Those that the records have; their groups are named by their place in the schema."""
    naive_times: frozenset[str] = frozenset()


def learn(value: bytes | None, types: Mapping[str, str], zone: str) -> Form | None:
    """The form of a record; None if it has none that could be read."""
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
    return Form(_expressions(members), columns, naive)


def _expressions(members: list[str]) -> tuple[str, ...]:
    """One expression for every few members, so that each stays quick."""
    runs: list[list[str]] = [[]]
    for place, member in enumerate(members):
        left = sum(map(_has_group, members[place:]))
        taken = sum(map(_has_group, runs[-1]))
        if _has_group(member) and taken + min(left, 2) > _GROUPS:
            runs.append([])
        runs[-1].append(member)
    texts = ["^ ?" + " ?, ?".join(run) for run in runs]
    texts[0] = r"^\{" + texts[0].removeprefix("^")
    # The rest takes spaces too: an optional one before it would be matched in two ways.
    firsts = [f"{text} ?,(?P<{_REST}>(?s:.*))$" for text in texts[:-1]]
    return (*firsts, rf"{texts[-1]} ?\}}[\r\n]*$")


def _has_group(member: str) -> bool:
    return "(?P<" in member


class Reader:
    """Reads batches of records, by the form that it has seen last."""

    def __init__(self, types: Mapping[str, str], zone: str) -> None:
        self.types = dict(types)
        self.zone = zone
        self._form: Form | None = None

    def read(self, values: "pa.Array[Any]") -> "pa.StructArray":
        """The columns of each record, and whether it was of the usual form."""
        import pyarrow as pa

        texts = _texts(values)
        groups = _matched(texts, self._form)
        if 2 * groups[USUAL].true_count < len(texts):
            groups = self._learnt(values, texts, groups)
        if self._form is not None:
            try:
                return self._converted(texts, groups, self._form)
            except pa.ArrowInvalid:
                pass  # a 30th of February: let Spark say which record it is in
        fields = [pa.nulls(len(values), self._arrow_type(kind)) for kind in self.types.values()]
        return self._struct(fields, pa.array([False] * len(values), pa.bool_()))

    def _learnt(self, values: Any, texts: Any, groups: "Groups") -> "Groups":
        """The groups by the form of the first record that was odd, if that is a better one."""
        import pyarrow.compute as pc

        odd = pc.index(groups[USUAL], False).as_py()
        form = learn(values[odd].as_py(), self.types, self.zone)
        if form is None or form == self._form:
            return groups
        other = _matched(texts, form)
        if other[USUAL].true_count <= groups[USUAL].true_count:
            return groups
        self._form = form
        return other

    def _converted(self, texts: Any, groups: "Groups", form: Form) -> "pa.StructArray":
        import pyarrow as pa
        import pyarrow.compute as pc

        fields = []
        for number, (name, kind) in enumerate(self.types.items()):
            if name not in form.columns:
                fields.append(pa.nulls(len(texts), self._arrow_type(kind)))
                continue
            text = groups[f"c{number}"]
            blank = pc.equal(text, "")
            if pc.any(blank).as_py():
                # Nothing in the group: null stood there, or an empty text. Inside a text there are
                # no quotes, so that its key is at one place only.
                null = pc.match_substring_regex(texts, f'"{re.escape(name)}" ?: ?null')
                text = pc.if_else(pc.and_(blank, null), None, text)
            fields.append(self._typed(text, kind, name in form.naive_times))
        return self._struct(fields, groups[USUAL])

    def _typed(self, text: Any, kind: str, naive: bool) -> "pa.Array[Any]":
        import pyarrow as pa
        import pyarrow.compute as pc

        if naive:
            text = pc.cast(text, pa.timestamp("us"))
        return text if kind == "string" else pc.cast(text, self._arrow_type(kind))

    def _struct(self, fields: "list[pa.Array[Any]]", usual: "pa.Array[Any]") -> "pa.StructArray":
        import pyarrow as pa

        return pa.StructArray.from_arrays([*fields, usual], names=[*self.types, USUAL])

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
    """A JSON object with its keys in order, doubles included."""


def reading_function(types: Mapping[str, str], zone: str) -> Callable[..., Any]:
    """What a worker calls with a batch of values; carries everything it needs with it."""
    import pyarrow as pa

    reader = Reader(types, zone)

    # Spark looks at the annotations: they must be the classes themselves.
    def read_usual_json(values: pa.Array) -> pa.Array:
        if not gc.get_freeze_count():
            # A worker looks for garbage after every task, in all modules that it has loaded: half of
            # what a small micro-batch costs there.
            gc.freeze()
        return reader.read(values)

    return read_usual_json


def _texts(values: "pa.Array[Any]") -> "pa.Array[Any]":
    """Bytes as texts; null where they are not UTF-8."""
    import pyarrow as pa

    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(value.as_py()) for value in values], pa.string())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _matched(texts: "pa.Array[Any]", form: Form | None) -> "Groups":
    """What each group holds; USUAL says which records have matched."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if form is None:
        return {USUAL: pa.array([False] * len(texts), pa.bool_())}
    groups: Groups = {}
    rest = texts
    for expression in form.expressions:
        found = pc.extract_regex(rest, expression)
        names = [field.name for field in found.type]
        groups |= zip(names, found.flatten(), strict=True)
        groups[USUAL] = found.is_valid()
        rest = groups.pop(_REST, None)
    # A record that one of the later expressions refuses is in no group.
    if len(form.expressions) > 1:
        groups |= {
            name: pc.if_else(groups[USUAL], group, None)
            for name, group in groups.items()
            if name != USUAL
        }
    return groups


def _pattern(kind: str, group: str, naive: bool) -> str:
    """An expression for a value of a type, with a group for what it says."""
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
