"""Avro's schema resolution: why a reader's schema cannot read a writer's data.

The results are those of `SchemaCompatibility` in Avro's Java library, which Confluent's registry uses.
Where the library deviates from the specification, so does this module: named types match by their names
without namespaces, and logical types are ignored.
"""

from strom.registry.formats.avro.types import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroRecord,
    AvroType,
    AvroUnion,
    NamedType,
)
from strom.registry.formats.schema import Budget, Problem

PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""The other types that a reader of a primitive type can read."""


def problems(reader: AvroType, writer: AvroType) -> list[Problem]:
    """Why `reader` cannot read data of `writer`; paths are those of the reader's schema."""
    try:
        return _Resolution().compare(reader, writer, "")
    except _Ambiguous as ambiguous:
        return [ambiguous.problem]


class _Ambiguous(Exception):
    """The reader's schema matches in two ways; this ends the comparison, even inside a union."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


class _Resolution:
    def __init__(self) -> None:
        # Each pair of types is compared once. A pair that recurs inside itself counts as compatible
        # there: its problems are found by the outer comparison.
        self._found: dict[tuple[int, int], list[Problem]] = {}
        self._named: dict[int, dict[str, AvroField]] = {}
        self._budget = Budget()

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Problem]:
        self._budget.spend()
        pair = id(reader), id(writer)
        if pair not in self._found:
            self._found[pair] = []
            self._found[pair] = self._compare(reader, writer, path)
        return self._found[pair]

    def _compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Problem]:
        match reader, writer:
            case _, AvroUnion():
                return self._written_by_union(reader, writer, path)
            case AvroUnion(), _:
                return self._read_by_union(reader, writer, path)
            case AvroArray(), AvroArray():
                return self.compare(reader.items, writer.items, f"{path}/items")
            case AvroMap(), AvroMap():
                return self.compare(reader.values, writer.values, f"{path}/values")
            case AvroFixed(), AvroFixed():
                return _names(reader, writer, path) + _sizes(reader, writer, path)
            case AvroEnum(), AvroEnum():
                return _names(reader, writer, path) + _symbols(reader, writer, path)
            case AvroRecord(), AvroRecord():
                return _names(reader, writer, path) + self._fields(reader, writer, path)
        if reader.type == writer.type or writer.type in PROMOTIONS.get(reader.type, ()):
            return []
        return [
            Problem("TYPE_MISMATCH", path or "/", f"{_a(writer)} cannot be read as {_a(reader)}")
        ]

    def _written_by_union(self, reader: AvroType, writer: AvroUnion, path: str) -> list[Problem]:
        """Check that every branch of the writer's union can be read."""
        found: list[Problem] = []
        for index, branch in enumerate(writer.branches):
            reasons = self.compare(reader, branch, f"{path}/{index}")
            if reasons and isinstance(reader, AvroUnion):
                # No branch of the reader's union can read this branch.
                reasons = [_no_branch(branch, f"{path}/{index}")]
            found += reasons
        return found

    def _read_by_union(self, reader: AvroUnion, writer: AvroType, path: str) -> list[Problem]:
        if any(not self.compare(branch, writer, path) for branch in reader.branches):
            return []
        return [_no_branch(writer, path)]

    def _fields(self, reader: AvroRecord, writer: AvroRecord, path: str) -> list[Problem]:
        found: list[Problem] = []
        for index, part in enumerate(reader.fields):
            place = f"{path}/fields/{index}"
            sources = self._sources(part, writer)
            if len(sources) > 1:
                names = " and ".join(source.name for source in sources)
                text = f"the reader's field {part.name} matches several of the writer's fields: {names}"
                raise _Ambiguous(Problem("READER_FIELD_AMBIGUOUS", place, text))
            if sources:
                found += self.compare(part.type, sources[0].type, f"{place}/type")
            elif not part.has_default:
                text = f"the reader's field {part.name} has no default, and the writer lacks it"
                found.append(Problem("READER_FIELD_MISSING_DEFAULT_VALUE", place, text))
        return found

    def _sources(self, part: AvroField, writer: AvroRecord) -> list[AvroField]:
        """The fields of the writer that a reader's field matches, by name and by alias."""
        if id(writer) not in self._named:
            self._named[id(writer)] = {source.name: source for source in writer.fields}
        names = dict.fromkeys((part.name, *part.aliases))
        return [self._named[id(writer)][name] for name in names if name in self._named[id(writer)]]


def _names(reader: NamedType, writer: NamedType, path: str) -> list[Problem]:
    if reader.name.simple == writer.name.simple or writer.name in reader.aliases:
        return []
    text = f"the writer's name is {writer.name.full}, the reader's {reader.name.full}"
    return [Problem("NAME_MISMATCH", f"{path}/name", text)]


def _sizes(reader: AvroFixed, writer: AvroFixed, path: str) -> list[Problem]:
    if reader.size == writer.size:
        return []
    text = f"the writer's {writer.size} bytes cannot be read as {reader.size}"
    return [Problem("FIXED_SIZE_MISMATCH", f"{path}/size", text)]


def _symbols(reader: AvroEnum, writer: AvroEnum, path: str) -> list[Problem]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return []
    text = f"the reader lacks {', '.join(missing)}, and has no default for unknown symbols"
    return [Problem("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text)]


def _no_branch(writer: AvroType, path: str) -> Problem:
    return Problem(
        "MISSING_UNION_BRANCH",
        path or "/",
        f"no branch of the reader's union can read {_a(writer)}",
    )


def _a(schema: AvroType) -> str:
    return f"{schema.type} {schema.name.full}" if isinstance(schema, NamedType) else schema.type
