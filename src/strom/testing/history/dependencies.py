"""Whether operations depend on each other in a cycle.

A read comes after the send of its record, and an operation after those that ended before it began.
Kafka's transactions are visible only when they are committed, so these two types of edges form no
cycles. The third type, the order of records by offset, may: transactions write while they run.
"""

import enum
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from strom.testing.history.facts import Facts
from strom.testing.history.findings import Anomaly, Verdict
from strom.testing.history.operations import NEVER, Outcome, Send

_TRIED = 30
"""How many operations of a component are searched for a short cycle; the shortest is not needed."""


class Why(enum.Enum):
    """Why one operation comes after another."""

    READ = "was read by"
    LIES_BEFORE = "is before"
    TIME = "ended before the start of"


class Graph:
    """A graph of operations, and of moments in time that connect them with few edges."""

    def __init__(self, operations: int) -> None:
        self.operations = operations
        self.after: list[list[int]] = [[] for _ in range(operations)]
        self._why: dict[tuple[int, int], Why] = {}

    def add(self, earlier: int, later: int, why: Why) -> None:
        """Add an edge from the earlier operation to the later one."""
        if earlier != later and (earlier, later) not in self._why:
            self._why[earlier, later] = why
            self.after[earlier].append(later)

    def add_moment(self) -> int:
        """Add a moment: operations before it ended before operations after it began."""
        self.after.append([])
        return len(self.after) - 1

    def connect(self, earlier: int, later: int) -> None:
        """Connect an operation with a moment, or two moments."""
        self.after[earlier].append(later)

    def why(self, earlier: int, later: int) -> Why:
        """The type of an edge; through moments it is time."""
        return self._why.get((earlier, later), Why.TIME)

    def cycles(self) -> Iterator[list[int]]:
        """One short cycle for each component, without the moments."""
        for component in components(self.after):
            if len(component) > 1:
                inside = set(component)
                tried = islice(
                    (node for node in sorted(component) if node < self.operations), _TRIED
                )
                shortest = min((self._shortest(node, inside) for node in tried), key=len)
                yield [node for node in shortest if node < self.operations]

    def _shortest(self, start: int, inside: set[int]) -> list[int]:
        """The shortest cycle through an operation."""
        came_from: dict[int, int] = {}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for following in self.after[node]:
                if following == start:
                    path = [node]
                    while path[-1] != start:
                        path.append(came_from[path[-1]])
                    return path[::-1]
                if following in inside and following not in came_from:
                    came_from[following] = node
                    queue.append(following)
        raise ValueError("a strongly connected component has a cycle through every node")


def check_dependencies(facts: Facts, verdict: Verdict) -> None:
    """Find cycles of reads and time, of offset order, and of all of these."""
    by_reading = Graph(len(facts.operations))
    _add_reads(facts, by_reading)
    _add_time(facts, by_reading)
    _report(facts, verdict, Anomaly.READ_CYCLE, by_reading)
    if all(len(operation.steps) < 2 for operation in facts.operations):
        return  # the order within one key has no cycles
    by_place = Graph(len(facts.operations))
    _add_places(facts, by_place)
    _report(facts, verdict, Anomaly.WRITE_CYCLE, by_place)
    _add_reads(facts, by_place)
    _report(facts, verdict, Anomaly.MIXED_CYCLE, by_place, needs={Why.READ, Why.LIES_BEFORE})


def _add_reads(facts: Facts, graph: Graph) -> None:
    for index, operation in enumerate(facts.operations):
        if not facts.happened[index]:
            continue
        for read in operation.reads:
            writer = facts.writer(read)
            if writer is not None and facts.happened[writer]:
                graph.add(writer, index, Why.READ)


def _add_places(facts: Facts, graph: Graph) -> None:
    for key, order in facts.orders.items():
        last: int | None = None
        for offset in order.rank:
            writer = _writer_at(facts, key, offset)
            if writer is not None and last is not None:
                graph.add(last, writer, Why.LIES_BEFORE)
            last = writer


def _writer_at(facts: Facts, key: str, offset: int) -> int | None:
    values = facts.orders[key].values[offset]
    value, shown_by = next(iter(values.items()))
    sent = facts.writers.get(key, {}).get(value, ())
    happened = [one.operation for one in sent if facts.happened[one.operation]]
    if len(happened) == 1:
        return happened[0]
    return shown_by if Send(key, value, offset) in facts.operations[shown_by].steps else None


def _add_time(facts: Facts, graph: Graph) -> None:
    """Connect operations that ended before others began, through shared moments."""
    events = [
        event
        for index, operation in enumerate(facts.operations)
        if facts.happened[index]
        for event in ((operation.began, False, index), (operation.ended, True, index))
    ]
    events.sort()
    moment = next_moment = graph.add_moment()
    for at, ends, index in events:
        if not ends:
            if next_moment != moment:
                graph.connect(moment, next_moment)
                moment = next_moment
            graph.connect(moment, index)
        elif at != NEVER and facts.operations[index].outcome is Outcome.OK:
            if next_moment == moment:
                next_moment = graph.add_moment()
            graph.connect(index, next_moment)


def _report(
    facts: Facts,
    verdict: Verdict,
    anomaly: Anomaly,
    graph: Graph,
    needs: frozenset[Why] | set[Why] = frozenset(),
) -> None:
    for cycle in graph.cycles():
        steps = list(zip(cycle, cycle[1:] + cycle[:1], strict=True))
        if needs <= {graph.why(*step) for step in steps}:
            operations = [facts.operations[index] for index in cycle]
            edges = [
                f"{facts.operations[earlier].process} {graph.why(earlier, later).value} "
                f"{facts.operations[later].process}"
                for earlier, later in steps
            ]
            verdict.add(anomaly, "; ".join(edges), operations)


def components(after: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected components of a graph, by Tarjan's algorithm.

    Without recursion, because chains may be long.
    """
    unseen = -1
    order = [unseen] * len(after)
    low = [0] * len(after)
    on_stack = bytearray(len(after))
    stack: list[int] = []
    count = 0
    for root in range(len(after)):
        if order[root] != unseen:
            continue
        path = [(root, iter(after[root]))]
        order[root] = low[root] = count
        count += 1
        stack.append(root)
        on_stack[root] = True
        while path:
            node, following = path[-1]
            for other in following:
                if order[other] == unseen:
                    order[other] = low[other] = count
                    count += 1
                    stack.append(other)
                    on_stack[other] = True
                    path.append((other, iter(after[other])))
                    break
                if on_stack[other]:
                    low[node] = min(low[node], order[other])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    yield _unwind(stack, on_stack, node)


def _unwind(stack: list[int], on_stack: bytearray, root: int) -> list[int]:
    found = []
    while True:
        node = stack.pop()
        on_stack[node] = False
        found.append(node)
        if node == root:
            return found
