"""Avro's schema resolution: whether a reader's schema can read a writer's data, and if not, why.

The results are those of `SchemaCompatibility` in Avro's Java library, which Confluent's registry
asks; where it differs from the specification, the library is followed: named types match by
their names without namespaces, and logical types do not count.
"""

from strom.registry.formats.avro.types import (
    Array,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Union,
)
from strom.registry.formats.schema import Budget, Problem

PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""What else a reader of a primitive type can read."""


def problems(reader: AvroType, writer: AvroType) -> list[Problem]:
    """List why `reader` cannot read what `writer` wrote; paths are those of the reader."""
    try:
        return _Resolution().compare(reader, writer, "")
    except _Ambiguous as ambiguous:
        return [ambiguous.problem]


class _Ambiguous(Exception):
    """The reader's schema can be understood in two ways; it is given up, even inside of a union."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


class _Resolution:
    def __init__(self) -> None:
        # A pair of types is compared once. While that is going on, and the pair is met again
        # inside of itself, it counts as fitting: whatever is wrong with it is found outside.
        self._found: dict[tuple[int, int], list[Problem]] = {}
        self._named: dict[int, dict[str, Field]] = {}
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
            case _, Union():
                return self._written_by_union(reader, writer, path)
            case Union(), _:
                return self._read_by_union(reader, writer, path)
            case Array(), Array():
                return self.compare(reader.items, writer.items, f"{path}/items")
            case Map(), Map():
                return self.compare(reader.values, writer.values, f"{path}/values")
            case Fixed(), Fixed():
                return _names(reader, writer, path) + _sizes(reader, writer, path)
            case Enumeration(), Enumeration():
                return _names(reader, writer, path) + _symbols(reader, writer, path)
            case Record(), Record():
                return _names(reader, writer, path) + self._fields(reader, writer, path)
        if reader.type == writer.type or writer.type in PROMOTIONS.get(reader.type, ()):
            return []
        return [
            Problem("TYPE_MISMATCH", path or "/", f"{_a(writer)} cannot be read as {_a(reader)}")
        ]

    def _written_by_union(self, reader: AvroType, writer: Union, path: str) -> list[Problem]:
        """Check that every branch of the writer's union can be read."""
        found: list[Problem] = []
        for index, branch in enumerate(writer.branches):
            reasons = self.compare(reader, branch, f"{path}/{index}")
            if reasons and isinstance(reader, Union):
                # The branch as a whole has no place in the reader's union.
                reasons = [_no_branch(branch, f"{path}/{index}")]
            found += reasons
        return found

    def _read_by_union(self, reader: Union, writer: AvroType, path: str) -> list[Problem]:
        if any(not self.compare(branch, writer, path) for branch in reader.branches):
            return []
        return [_no_branch(writer, path)]

    def _fields(self, reader: Record, writer: Record, path: str) -> list[Problem]:
        found: list[Problem] = []
        for index, part in enumerate(reader.fields):
            place = f"{path}/fields/{index}"
            sources = self._sources(part, writer)
            if len(sources) > 1:
                names = " and ".join(source.name for source in sources)
                text = f"the reader's field {part.name} could be any of the writer's {names}"
                raise _Ambiguous(Problem("READER_FIELD_AMBIGUOUS", place, text))
            if sources:
                found += self.compare(part.type, sources[0].type, f"{place}/type")
            elif not part.has_default:
                text = f"the reader's field {part.name} has no default, and the writer has no such field"
                found.append(Problem("READER_FIELD_MISSING_DEFAULT_VALUE", place, text))
        return found

    def _sources(self, part: Field, writer: Record) -> list[Field]:
        """Find the fields of the writer that a reader's is read from: by name, by alias."""
        if id(writer) not in self._named:
            self._named[id(writer)] = {source.name: source for source in writer.fields}
        names = dict.fromkeys((part.name, *part.aliases))
        return [self._named[id(writer)][name] for name in names if name in self._named[id(writer)]]


def _names(reader: Named, writer: Named, path: str) -> list[Problem]:
    if reader.name.simple == writer.name.simple or writer.name in reader.aliases:
        return []
    text = f"the writer's name is {writer.name.full}, the reader's {reader.name.full}"
    return [Problem("NAME_MISMATCH", f"{path}/name", text)]


def _sizes(reader: Fixed, writer: Fixed, path: str) -> list[Problem]:
    if reader.size == writer.size:
        return []
    text = f"the writer's {writer.size} bytes cannot be read as {reader.size}"
    return [Problem("FIXED_SIZE_MISMATCH", f"{path}/size", text)]


def _symbols(reader: Enumeration, writer: Enumeration, path: str) -> list[Problem]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return []
    text = f"the reader does not know {', '.join(missing)}, and has no default for unknown symbols"
    return [Problem("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text)]


def _no_branch(writer: AvroType, path: str) -> Problem:
    return Problem(
        "MISSING_UNION_BRANCH",
        path or "/",
        f"no branch of the reader's union can read {_a(writer)}",
    )


def _a(schema: AvroType) -> str:
    return f"{schema.type} {schema.name.full}" if isinstance(schema, Named) else schema.type
