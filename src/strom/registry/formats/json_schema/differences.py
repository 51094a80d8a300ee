"""Whether one JSON Schema accepts all that another accepts, by the rules of Confluent's registry.

The rule names are Confluent's. This comparison is stricter where Confluent's ignores differences: in
patternProperties, propertyNames, contains and conditions, in required names that are not among the
properties, and in a type that is added. Elsewhere it is as strict, so it also rejects some schemas that
a more precise comparison would accept.
"""

from collections.abc import Iterable, Iterator

from strom.registry.formats.json_schema import containers, nodes, scalars
from strom.registry.formats.json_schema.combinations import combined, is_choice, singleton
from strom.registry.formats.json_schema.nodes import SchemaNode, identity
from strom.registry.formats.schema import Budget, Problem

Pair = tuple[int, int]
ENTRIES_PER_STEP = 20
"""Looking at a property is so much cheaper than comparing two schemas."""


def problems(reader: nodes.Pointer, writer: nodes.Pointer) -> list[Problem]:
    """Why the reader's schema rejects some of what the writer's accepts."""
    # Schemas may be recursive. So every pair of referenced locations counts as compatible at first; those
    # that turn out not to be are remembered, and the comparison is repeated until it finds no more.
    refused: dict[Pair, list[Problem]] = {}
    budget = Budget()
    while True:
        comparison = Comparison(refused, budget)
        comparison.compare(reader, writer)
        found = {pair: comparison.examine(*both) for pair, both in comparison.met()}
        new = {pair: reasons for pair, reasons in found.items() if reasons and pair not in refused}
        if not new:
            last = found[next(iter(found))]
            return [problem._replace(path=f"#/{problem.path}") for problem in last]
        refused |= new


class Comparison:
    """One walk over two schemas, which compares every pair of nodes once."""

    def __init__(self, refused: dict[Pair, list[Problem]], budget: Budget) -> None:
        self._refused = refused
        self._budget = budget
        self._met: dict[Pair, tuple[SchemaNode, SchemaNode]] = {}
        self._found: dict[Pair, list[Problem]] = {}

    def met(self) -> Iterator[tuple[Pair, tuple[SchemaNode, SchemaNode]]]:
        """The pairs that references lead to, including those found during the iteration."""
        done = 0
        while done < len(self._met):
            fresh = list(self._met.items())[done:]
            done += len(fresh)
            yield from fresh

    def compare(self, reader: SchemaNode, writer: SchemaNode, path: str = "") -> list[Problem]:
        """The problems of a pair of nodes; paths start with `path`."""
        self.spend()
        if isinstance(reader, nodes.Pointer) or isinstance(writer, nodes.Pointer):
            both = _followed(reader), _followed(writer)
            pair = id(both[0]), id(both[1])
            self._met.setdefault(pair, both)
            found = self._refused.get(pair, [])
        else:
            found = self.examine(reader, writer)
        self.spend(len(found))  # with every level of references, their number may double
        return [problem._replace(path=_joined(path, problem.path)) for problem in found]

    def examine(self, reader: SchemaNode, writer: SchemaNode) -> list[Problem]:
        """The problems of two nodes that are not references."""
        pair = id(reader), id(writer)
        if pair not in self._found:
            self.spend((_size(reader) + _size(writer)) // ENTRIES_PER_STEP)
            self._found[pair] = list(dict.fromkeys(self._compare(reader, writer)))
        return self._found[pair]

    def spend(self, steps: int = 1) -> None:
        self._budget.spend(steps)

    def _compare(self, reader: SchemaNode, writer: SchemaNode) -> list[Problem]:
        if self._passes_by_a_part(reader, writer):
            return []
        if isinstance(writer, nodes.Nothing) or isinstance(reader, nodes.Anything):
            return []
        if type(reader) is not type(writer):
            text = f"the writer's schema is {writer.word}, the reader's {reader.word}"
            return [Problem("TYPE_CHANGED", "", text)]
        return [*_other_types(reader, writer), *self._same_sort(reader, writer)]

    def _passes_by_a_part(self, reader: SchemaNode, writer: SchemaNode) -> bool:
        """Whether a single part of a combination already makes the pair compatible."""
        match reader, writer:
            case nodes.Combined(), nodes.Combined():
                return False
            case nodes.Combined(), _:
                if is_choice(reader) or singleton(reader):
                    return any(not self.compare(part, writer) for part in reader.parts)
            case _, nodes.Combined():
                if writer.criterion is nodes.Criterion.ALL or singleton(writer):
                    return any(not self.compare(reader, part) for part in writer.parts)
        return False

    def _same_sort(self, reader: SchemaNode, writer: SchemaNode) -> Iterable[Problem]:
        match reader, writer:
            case nodes.String(), nodes.String():
                return scalars.strings(reader, writer)
            case nodes.Number(), nodes.Number():
                return scalars.numbers(reader, writer)
            case nodes.Enum(), nodes.Enum():
                return scalars.enums(reader, writer)
            case nodes.Const(), nodes.Const():
                return scalars.constants(reader, writer)
            case nodes.Object(), nodes.Object():
                return containers.objects(self, reader, writer)
            case nodes.Array(), nodes.Array():
                return containers.arrays(self, reader, writer)
            case nodes.Combined(), nodes.Combined():
                return combined(self, reader, writer)
            case nodes.Negation(), nodes.Negation():
                if self.compare(writer.part, reader.part):
                    text = "the reader excludes more than the writer does"
                    return [Problem("NOT_TYPE_EXTENDED", "not", text)]
            case nodes.Condition(), nodes.Condition():
                if identity(reader.source) != identity(writer.source):
                    return [Problem("CONDITION_CHANGED", "if", "the condition differs")]
        return []


def _other_types(reader: SchemaNode, writer: SchemaNode) -> list[Problem]:
    match reader, writer:
        case nodes.Typed(), nodes.Typed() if reader.excludes_others and not writer.excludes_others:
            text = f"the writer accepts values of any type, the reader {reader.word} only"
            return [Problem("TYPE_NARROWED", "", text)]
    return []


def _size(node: SchemaNode) -> int:
    """The number of entries that a comparison looks at."""
    match node:
        case nodes.Object():
            return len(node.properties) + len(node.patterns) + len(node.required)
        case nodes.Enum():
            return len(node.values)
    return 0


def _followed(node: SchemaNode) -> SchemaNode:
    return node.follow() if isinstance(node, nodes.Pointer) else node


def _joined(before: str, after: str) -> str:
    return f"{before}/{after}" if before and after else before or after
