"""Whether each client read and sent in order, without skips and without going back."""

from collections import defaultdict

from strom.testing.history.facts import Facts
from strom.testing.history.findings import Anomaly, Verdict
from strom.testing.history.operations import Key, Operation, Outcome, Read, Send


def check_orderliness(facts: Facts, verdict: Verdict) -> None:
    """Find polls that skip or go back, and sends that do."""
    by_process: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in facts.operations:
        by_process[operation.process].append(operation)
    for operations in by_process.values():
        reading, sending = _Reading(facts, verdict), _Sending(facts, verdict)
        for operation in operations:
            reading.check(operation)
            sending.check(operation)


class _Reading:
    """The positions of one consumer in its keys."""

    def __init__(self, facts: Facts, verdict: Verdict) -> None:
        self._facts = facts
        self._verdict = verdict
        self._last: dict[Key, tuple[int, Operation]] = {}

    def check(self, operation: Operation) -> None:
        for key in operation.moved:
            self._last.pop(key, None)
        within: dict[Key, int] = {}
        for read in operation.reads:
            if read.key in operation.moved:
                continue
            if read.key in within:
                self._compare_within(within[read.key], read, operation)
            elif operation.outcome is Outcome.OK:
                self._compare_with_last(read, operation)
            within[read.key] = read.offset
        for read in operation.reads:
            if operation.outcome is Outcome.OK:
                self._last[read.key] = (read.offset, operation)
            else:
                # After an aborted transaction a consumer may go back.
                self._last.pop(read.key, None)

    def _compare_within(self, last: int, read: Read, operation: Operation) -> None:
        steps = self._facts.orders[read.key].steps_between(last, read.offset)
        if steps == 1:
            return
        within = (Anomaly.POLL_SKIP_WITHIN, Anomaly.NONMONOTONIC_POLL_WITHIN)
        self._verdict.add(
            within[steps < 1],
            f"{operation.process} read {read.key} at offset {last} and next, in the same "
            f"operation, at {read.offset}: {_in_words(steps)}",
            [operation],
        )

    def _compare_with_last(self, read: Read, operation: Operation) -> None:
        if read.key not in self._last:
            return
        last, earlier = self._last[read.key]
        steps = self._facts.orders[read.key].steps_between(last, read.offset)
        if steps == 1:
            return
        self._verdict.add(
            (Anomaly.POLL_SKIP, Anomaly.NONMONOTONIC_POLL)[steps < 1],
            f"{operation.process} read {read.key} up to offset {last} and continued at "
            f"{read.offset}: {_in_words(steps)}",
            [earlier, operation],
        )


class _Sending:
    """One producer's sends to each key; sends without a known offset are ignored."""

    def __init__(self, facts: Facts, verdict: Verdict) -> None:
        self._facts = facts
        self._verdict = verdict
        self._last: dict[Key, tuple[Send, Operation]] = {}

    def check(self, operation: Operation) -> None:
        if operation.outcome is Outcome.FAILED:
            return
        within: dict[Key, Send] = {}
        for send in operation.sends:
            if send.offset is None:
                continue
            if send.key in within:
                self._compare_within(within[send.key], send, operation)
            elif send.key in self._last:
                self._compare_with_last(send, operation)
            within[send.key] = send
            self._last[send.key] = (send, operation)

    def _compare_within(self, last: Send, send: Send, operation: Operation) -> None:
        steps = self._steps(last, send)
        if steps == 1:
            return
        self._verdict.add(
            (Anomaly.SEND_SKIP_WITHIN, Anomaly.NONMONOTONIC_SEND_WITHIN)[steps < 1],
            f"{operation.process} sent {last.value!r} and then {send.value!r} to {send.key}; they "
            f"are at {last.offset} and {send.offset}",
            [operation],
        )

    def _compare_with_last(self, send: Send, operation: Operation) -> None:
        last, earlier = self._last[send.key]
        if self._steps(last, send) < 1:
            self._verdict.add(
                Anomaly.NONMONOTONIC_SEND,
                f"{operation.process} sent {last.value!r} and later {send.value!r} to {send.key}; "
                f"they are at {last.offset} and {send.offset}",
                [earlier, operation],
            )

    def _steps(self, last: Send, send: Send) -> int:
        earlier, later = last.offset or 0, send.offset or 0
        if later <= earlier:
            return later - earlier
        return max(1, self._facts.orders[send.key].steps_between(earlier, later))


def _in_words(steps: int) -> str:
    if steps > 1:
        return f"{steps - 1} records between them were skipped"
    return "the same record again" if steps == 0 else f"{-steps} records back"
