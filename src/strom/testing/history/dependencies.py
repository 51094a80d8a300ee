"""Do operations depend on each other in a circle?

Whoever reads a record comes after whoever sent it, and whoever begins after another has ended comes
after it. Kafka's transactions are seen only when they are committed, so along these two kinds of steps
one always gets later, and never back to where one was. Along the third kind, whose record lies before
whose, one may: transactions write while they run.
"""

import enum
from collections import deque
from collections.abc import Iterator
from itertools import islice

from strom.testing.history.anomalies import Anomaly
from strom.testing.history.components import components
from strom.testing.history.facts import Facts
from strom.testing.history.findings import Verdict
from strom.testing.history.operations import NEVER, Outcome, Send

_TRIED = 30
"""From so many operations of a knot a short circle is looked for: the very shortest is not needed."""


class Why(enum.Enum):
    """Why one operation comes after another."""

    READ = "was read by"
    LIES_BEFORE = "lies before"
    TIME = "ended before the beginning of"


class Graph:
    """Operations by number, and after them the moments of time through which they are connected."""

    def __init__(self, operations: int) -> None:
        self.operations = operations
        self.after: list[list[int]] = [[] for _ in range(operations)]
        self._why: dict[tuple[int, int], Why] = {}

    def add(self, earlier: int, later: int, why: Why) -> None:
        """The later one comes after the earlier."""
        if earlier != later and (earlier, later) not in self._why:
            self._why[earlier, later] = why
            self.after[earlier].append(later)

    def add_moment(self) -> int:
        """A moment: whatever is connected to it ended before what it is connected with began."""
        self.after.append([])
        return len(self.after) - 1

    def connect(self, earlier: int, later: int) -> None:
        """Connect an operation with a moment, or two moments."""
        self.after[earlier].append(later)

    def why(self, earlier: int, later: int) -> Why:
        """The reason for a step; through moments it is always the time."""
        return self._why.get((earlier, later), Why.TIME)

    def circles(self) -> Iterator[list[int]]:
        """For each knot of operations one circle, a short one, without the moments."""
        for knot in components(self.after):
            if len(knot) > 1:
                inside = set(knot)
                tried = islice((node for node in sorted(knot) if node < self.operations), _TRIED)
                shortest = min((self._shortest(node, inside) for node in tried), key=len)
                yield [node for node in shortest if node < self.operations]

    def _shortest(self, start: int, inside: set[int]) -> list[int]:
        """The shortest way from an operation back to itself."""
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
        raise ValueError("a knot is where every way leads back")


def check_dependencies(facts: Facts, verdict: Verdict) -> None:
    """Find circles by reading and time, by lying before each other, and by all of it."""
    by_reading = Graph(len(facts.operations))
    _add_reads(facts, by_reading)
    _add_time(facts, by_reading)
    _tell(facts, verdict, Anomaly.READ_CYCLE, by_reading)
    if all(len(operation.steps) < 2 for operation in facts.operations):
        return  # the order within one key has no circles
    by_place = Graph(len(facts.operations))
    _add_places(facts, by_place)
    _tell(facts, verdict, Anomaly.WRITE_CYCLE, by_place)
    _add_reads(facts, by_place)
    _tell(facts, verdict, Anomaly.MIXED_CYCLE, by_place, needs={Why.READ, Why.LIES_BEFORE})


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
            writer = _who_sent_to(facts, key, offset)
            if writer is not None and last is not None:
                graph.add(last, writer, Why.LIES_BEFORE)
            last = writer


def _who_sent_to(facts: Facts, key: str, offset: int) -> int | None:
    values = facts.orders[key].values[offset]
    value, shown_by = next(iter(values.items()))
    sent = facts.writers.get(key, {}).get(value, ())
    happened = [one.operation for one in sent if facts.happened[one.operation]]
    if len(happened) == 1:
        return happened[0]
    return shown_by if Send(key, value, offset) in facts.operations[shown_by].steps else None


def _add_time(facts: Facts, graph: Graph) -> None:
    """Connect what ended before something began. One moment serves all that ended before it."""
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


def _tell(
    facts: Facts,
    verdict: Verdict,
    anomaly: Anomaly,
    graph: Graph,
    needs: frozenset[Why] | set[Why] = frozenset(),
) -> None:
    for circle in graph.circles():
        steps = list(zip(circle, circle[1:] + circle[:1], strict=True))
        if needs <= {graph.why(*step) for step in steps}:
            operations = [facts.operations[index] for index in circle]
            told = [
                f"{facts.operations[earlier].process} {graph.why(earlier, later).value} "
                f"{facts.operations[later].process}"
                for earlier, later in steps
            ]
            verdict.add(anomaly, "; ".join(told), operations)
