"""Whether what one JSON Schema accepts, another accepts too, by the rules of Confluent's registry.

The names of the rules are Confluent's. It is stricter here where Confluent does not look:
at patternProperties, propertyNames, contains and conditions, at required names that are not among
the properties, and at a type that is named where none was. It is as strict elsewhere, which means
that schemas are refused that a cleverer comparison would let pass.
"""

from collections.abc import Iterable

from strom.registry.formats.json_schema import containers, scalars
from strom.registry.formats.json_schema.combinations import combined, is_choice, singleton
from strom.registry.formats.json_schema.loading import Loader
from strom.registry.formats.json_schema.nodes import (
    Anything,
    Array,
    Combined,
    Condition,
    Const,
    Criterion,
    Enum,
    Negation,
    Node,
    Nothing,
    Number,
    Object,
    String,
    Typed,
    identity,
)
from strom.registry.formats.schema import Problem

Pair = tuple[int, int]


def problems(reader: Loader, writer: Loader) -> list[Problem]:
    """List why the reader's schema refuses some of what the writer's accepts."""
    # A pair that is met inside of itself counts as fitting at first. If it turns out not to fit,
    # all is done once more with that known, until nothing new turns up.
    refused: dict[Pair, list[Problem]] = {}
    while True:
        comparison = Comparison(reader, writer, refused)
        found = comparison.compare(reader.root(), writer.root())
        now_refused = {pair: list_ for pair, list_ in comparison.found.items() if list_}
        if not comparison.assumed or now_refused.keys() == refused.keys():
            return [problem._replace(path=f"#/{problem.path}") for problem in found]
        refused = now_refused


class Comparison:
    """One walk over two schemas, in which every pair of nodes is compared once."""

    def __init__(self, reader: Loader, writer: Loader, refused: dict[Pair, list[Problem]]) -> None:
        self.found: dict[Pair, list[Problem]] = {}
        self.assumed = False
        self._reader = reader
        self._writer = writer
        self._refused = refused
        self._going_on: set[Pair] = set()
        self._kept: list[Node] = []  # their identities must not be given to others meanwhile
        self._opposite: Comparison | None = None

    def compare(self, reader: Node, writer: Node, path: str = "") -> list[Problem]:
        """List what is wrong with a pair of nodes; paths begin with `path`."""
        reader, writer = self._reader.follow(reader), self._writer.follow(writer)
        pair = id(reader), id(writer)
        if pair in self._going_on:
            found = self._refused.get(pair, [])
            self.assumed = self.assumed or not found
        elif pair in self.found:
            found = self.found[pair]
        else:
            self._going_on.add(pair)
            self._kept += (reader, writer)
            found = list(dict.fromkeys(self._compare(reader, writer)))
            self._going_on.discard(pair)
            self.found[pair] = found
        return [problem._replace(path=_joined(path, problem.path)) for problem in found]

    def opposite(self) -> "Comparison":
        """Give the comparison in which reader and writer have changed places."""
        if self._opposite is None:
            self._opposite = Comparison(self._writer, self._reader, {})
            self._opposite._opposite = self
        return self._opposite

    def _compare(self, reader: Node, writer: Node) -> list[Problem]:
        if self._passes_by_a_part(reader, writer):
            return []
        if isinstance(writer, Nothing) or isinstance(reader, Anything):
            return []
        if type(reader) is not type(writer):
            text = f"what the writer accepts as {writer.word} is {reader.word} for the reader"
            return [Problem("TYPE_CHANGED", "", text)]
        return [*_other_types(reader, writer), *self._same_sort(reader, writer)]

    def _passes_by_a_part(self, reader: Node, writer: Node) -> bool:
        """Tell whether one part of a combination is enough to see that all is well."""
        match reader, writer:
            case Combined(), Combined():
                return False
            case Combined(), _:
                if is_choice(reader) or singleton(reader):
                    return any(not self.compare(part, writer) for part in reader.parts)
            case _, Combined():
                if writer.criterion is Criterion.ALL or singleton(writer):
                    return any(not self.compare(reader, part) for part in writer.parts)
        return False

    def _same_sort(self, reader: Node, writer: Node) -> Iterable[Problem]:
        match reader, writer:
            case String(), String():
                return scalars.strings(reader, writer)
            case Number(), Number():
                return scalars.numbers(reader, writer)
            case Enum(), Enum():
                return scalars.enums(reader, writer)
            case Const(), Const():
                return scalars.constants(reader, writer)
            case Object(), Object():
                return containers.objects(self, reader, writer)
            case Array(), Array():
                return containers.arrays(self, reader, writer)
            case Combined(), Combined():
                return combined(self, reader, writer)
            case Negation(), Negation():
                if self.opposite().compare(writer.part, reader.part):
                    text = "the reader excludes more than the writer does"
                    return [Problem("NOT_TYPE_EXTENDED", "not", text)]
            case Condition(), Condition():
                if identity(reader.source) != identity(writer.source):
                    return [Problem("CONDITION_CHANGED", "if", "the condition is another one")]
        return []


def _other_types(reader: Node, writer: Node) -> list[Problem]:
    match reader, writer:
        case Typed(), Typed() if reader.excludes_others and not writer.excludes_others:
            text = f"the writer accepts values of any type, the reader {reader.word} only"
            return [Problem("TYPE_NARROWED", "", text)]
    return []


def _joined(before: str, after: str) -> str:
    return f"{before}/{after}" if before and after else before or after
