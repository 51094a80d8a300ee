"""Compares combined schemas: allOf, anyOf, oneOf."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from strom.registry.formats.json_schema.nodes import Combined, Criterion, SchemaNode, identity
from strom.registry.formats.schema import Problem


class Comparer(Protocol):
    def compare(self, reader: SchemaNode, writer: SchemaNode, path: str = "") -> list[Problem]:
        """The problems of a pair of nodes."""
        ...

    def spend(self, steps: int = 1) -> None:
        """Count steps; raises TooLarge when the budget is exhausted."""
        ...


def is_choice(node: Combined) -> bool:
    """Whether a value need not match all parts."""
    return node.criterion is not Criterion.ALL


def singleton(node: Combined) -> bool:
    """Whether there is one part, so that allOf, anyOf and oneOf are equivalent."""
    return len(node.parts) == 1


def combined(comparer: Comparer, reader: Combined, writer: Combined) -> Iterator[Problem]:
    """Match the parts of both sides so that each pair is compatible."""
    if not _criterion_fits(reader, writer):
        text = f"the writer's {writer.criterion} cannot be read as {reader.criterion}"
        yield Problem("COMBINED_TYPE_CHANGED", "", text)
        return
    read, wrote = _distinct(reader), _distinct(writer)
    if len(wrote) < len(read) and not is_choice(reader):
        yield Problem(
            "PRODUCT_TYPE_EXTENDED",
            "",
            f"the reader requires {len(read)} schemas, the writer {len(wrote)}",
        )
    elif len(wrote) > len(read) and is_choice(writer):
        yield Problem(
            "SUM_TYPE_NARROWED",
            "",
            f"the reader offers {len(read)} schemas, the writer {len(wrote)}",
        )
    fitting = [
        [index for index, mine in enumerate(read) if not comparer.compare(mine, other)]
        for other in wrote
    ]
    if _most_pairs(fitting, len(read), comparer.spend) < min(len(read), len(wrote)):
        text = f"not every schema under the writer's {writer.criterion} has a compatible one"
        yield Problem("COMBINED_TYPE_SUBSCHEMAS_CHANGED", "", text)


def _criterion_fits(reader: Combined, writer: Combined) -> bool:
    if reader.criterion is writer.criterion or reader.criterion is Criterion.ANY:
        return True
    if singleton(writer):
        return singleton(reader) or reader.criterion is Criterion.ONE
    return singleton(reader) and writer.criterion is Criterion.ALL


def _distinct(node: Combined) -> list[SchemaNode]:
    if node.distinct is not None:
        return node.distinct
    known: dict[object, SchemaNode] = {}
    for part in node.parts:
        # One schema object may be split into several nodes with the same source: they are distinct.
        own = part.source is not node.source
        known.setdefault(identity(part.source) if own else id(part), part)
    node.distinct = list(known.values())
    return node.distinct


def _most_pairs(fitting: Sequence[Sequence[int]], others: int, spend: Callable[[], None]) -> int:
    """The size of a maximum matching (Kuhn's algorithm, which takes cubic time)."""
    partner: list[int | None] = [None] * others

    def settle(left: int, asked: set[int]) -> bool:
        for right in fitting[left]:
            if partner[right] is None:
                partner[right] = left
                return True
        for right in fitting[left]:
            spend()
            if right in asked:
                continue
            asked.add(right)
            taken = partner[right]
            if taken is not None and settle(taken, asked):
                partner[right] = left
                return True
        return False

    return sum(settle(left, set()) for left in range(len(fitting)))
