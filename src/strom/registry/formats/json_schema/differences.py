"""Whether what one JSON Schema accepts, another accepts too, by the rules of Confluent's registry.

The names of the rules are Confluent's. It is stricter here where Confluent does not look:
at patternProperties, propertyNames, contains and conditions, at required names that are not among
the properties, and at a type that is named where none was. It is as strict elsewhere, which means
that schemas are refused that a cleverer comparison would let pass.
"""

from collections.abc import Iterable, Iterator

from strom.registry.formats.json_schema import containers, scalars
from strom.registry.formats.json_schema.combinations import combined, is_choice, singleton
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
    Pointer,
    String,
    Typed,
    identity,
)
from strom.registry.formats.schema import Budget, Problem

Pair = tuple[int, int]


def problems(reader: Pointer, writer: Pointer) -> list[Problem]:
    """List why the reader's schema refuses some of what the writer's accepts."""
    # Schemas refer to each other in circles. So at first every pair of places that a reference
    # leads to counts as fitting; those that turn out not to are remembered, and all is done once
    # more with that known, until nothing new turns up.
    refused: dict[Pair, list[Problem]] = {}
    budget = Budget()
    while True:
        comparison = Comparison(refused, budget)
        comparison.compare(reader, writer)
        found = {pair: comparison.examine(*nodes) for pair, nodes in comparison.met()}
        new = {pair: reasons for pair, reasons in found.items() if reasons and pair not in refused}
        if not new:
            last = found[next(iter(found))]
            return [problem._replace(path=f"#/{problem.path}") for problem in last]
        refused |= new


class Comparison:
    """One walk over two schemas, in which every pair of nodes is compared once."""

    def __init__(self, refused: dict[Pair, list[Problem]], budget: Budget) -> None:
        self._refused = refused
        self._budget = budget
        self._met: dict[Pair, tuple[Node, Node]] = {}
        self._found: dict[Pair, list[Problem]] = {}

    def met(self) -> Iterator[tuple[Pair, tuple[Node, Node]]]:
        """Give the pairs that references led to, those too that are met meanwhile."""
        done = 0
        while done < len(self._met):
            fresh = list(self._met.items())[done:]
            done += len(fresh)
            yield from fresh

    def compare(self, reader: Node, writer: Node, path: str = "") -> list[Problem]:
        """List what is wrong with a pair of nodes; paths begin with `path`."""
        self._budget.spend()
        if isinstance(reader, Pointer) or isinstance(writer, Pointer):
            nodes = _followed(reader), _followed(writer)
            pair = id(nodes[0]), id(nodes[1])
            self._met.setdefault(pair, nodes)
            found = self._refused.get(pair, [])
        else:
            found = self.examine(reader, writer)
        return [problem._replace(path=_joined(path, problem.path)) for problem in found]

    def examine(self, reader: Node, writer: Node) -> list[Problem]:
        """List what is wrong with two nodes that are no references."""
        pair = id(reader), id(writer)
        if pair not in self._found:
            self._found[pair] = list(dict.fromkeys(self._compare(reader, writer)))
        return self._found[pair]

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
                if self.compare(writer.part, reader.part):
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


def _followed(node: Node) -> Node:
    return node.follow() if isinstance(node, Pointer) else node


def _joined(before: str, after: str) -> str:
    return f"{before}/{after}" if before and after else before or after
