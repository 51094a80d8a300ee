"""Comparing what all, any or one of several schemas accept."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from strom.registry.formats.json_schema.nodes import Combined, Criterion, Node, identity
from strom.registry.formats.schema import Problem


class Comparer(Protocol):
    """Compares two nodes."""

    def compare(self, reader: Node, writer: Node, path: str = "") -> list[Problem]:
        """List what is wrong with a pair of nodes."""
        ...


def is_choice(node: Combined) -> bool:
    """Tell whether a value need not satisfy all parts."""
    return node.criterion is not Criterion.ALL


def singleton(node: Combined) -> bool:
    """Tell whether there is one part, so that all, any and one mean the same."""
    return len(node.parts) == 1


def combined(comparer: Comparer, reader: Combined, writer: Combined) -> Iterator[Problem]:
    """Pair the parts of both sides off so that each pair fits."""
    if not _criterion_fits(reader, writer):
        text = f"the writer's {writer.criterion} cannot be read as {reader.criterion}"
        yield Problem("COMBINED_TYPE_CHANGED", "", text)
        return
    read, wrote = _distinct(reader), _distinct(writer)
    if len(wrote) < len(read) and not is_choice(reader):
        yield Problem(
            "PRODUCT_TYPE_EXTENDED",
            "",
            f"the reader demands {len(read)} schemas, the writer {len(wrote)}",
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
    if _most_pairs(fitting, len(read)) < min(len(read), len(wrote)):
        text = f"not every schema under the writer's {writer.criterion} has one that fits it"
        yield Problem("COMBINED_TYPE_SUBSCHEMAS_CHANGED", "", text)


def _criterion_fits(reader: Combined, writer: Combined) -> bool:
    if reader.criterion is writer.criterion or reader.criterion is Criterion.ANY:
        return True
    if singleton(writer):
        return singleton(reader) or reader.criterion is Criterion.ONE
    return singleton(reader) and writer.criterion is Criterion.ALL


def _distinct(node: Combined) -> list[Node]:
    """List the parts, those written twice only once."""
    known: dict[object, Node] = {}
    for part in node.parts:
        # Nodes that one schema object was taken apart into are different things of one source.
        own = part.source is not node.source
        known.setdefault(identity(part.source) if own else id(part), part)
    return list(known.values())


def _most_pairs(fitting: Sequence[Sequence[int]], others: int) -> int:
    """Count how many on the left can each have a partner of their own (Kuhn's algorithm)."""
    partner: list[int | None] = [None] * others

    def settle(left: int, asked: set[int]) -> bool:
        for right in fitting[left]:
            if right in asked:
                continue
            asked.add(right)
            taken = partner[right]
            if taken is None or settle(taken, asked):
                partner[right] = left
                return True
        return False

    return sum(settle(left, set()) for left in range(len(fitting)))
