"""Whether exactly the records that were sent were read."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from strom.testing.history.facts import Facts, SentBy
from strom.testing.history.findings import Anomaly, Verdict
from strom.testing.history.operations import Key, Outcome, Read, Value


def check_contents(facts: Facts, verdict: Verdict) -> None:
    """Find records that are lost, duplicated, inconsistent, aborted or invented."""
    _check_places(facts, verdict)
    _check_reads(facts, verdict)
    for key, by_value in facts.writers.items():
        _check_missing(facts, key, by_value, verdict)


def _check_places(facts: Facts, verdict: Verdict) -> None:
    for key, order in facts.orders.items():
        for offset, values in order.values.items():
            if len(values) > 1:
                verdict.add(
                    Anomaly.INCONSISTENT_OFFSETS,
                    f"offset {offset} of {key} held {_listed(values)}",
                    [facts.operations[index] for index in values.values()],
                )
        for value, offsets in order.places.items():
            if len(offsets) > 1:
                verdict.add(
                    Anomaly.DUPLICATE,
                    f"{value!r} is in {key} at the offsets {_listed(offsets)}",
                    [facts.operations[order.values[offset][value]] for offset in offsets],
                )


def _check_reads(facts: Facts, verdict: Verdict) -> None:
    for index, operation in enumerate(facts.operations):
        own = {(send.key, send.value) for send in operation.sends}
        for read in operation.reads:
            if (read.key, read.value) in own:
                _check_own(facts, index, read, verdict)
            if operation.outcome is not Outcome.OK:
                continue
            writers = facts.candidates(read)
            if not writers:
                verdict.add(
                    Anomaly.INVENTED_READ,
                    f"{read.value!r} was read in {read.key} at offset {read.offset}; no client sent it",
                    [operation],
                )
            elif all(facts.operations[one].outcome is Outcome.FAILED for one in writers):
                verdict.add(
                    Anomaly.ABORTED_READ,
                    f"{read.value!r} was read in {read.key} at offset {read.offset}, but its "
                    "send failed or was aborted",
                    [facts.operations[writers[0]], operation],
                )


def _check_own(facts: Facts, index: int, read: Read, verdict: Verdict) -> None:
    if index in facts.candidates(read):
        verdict.add(
            Anomaly.PRECOMMITTED_READ,
            f"{read.value!r} of {read.key} was read by the operation that sent it",
            [facts.operations[index]],
        )


def _check_missing(
    facts: Facts, key: Key, by_value: dict[Value, list[SentBy]], verdict: Verdict
) -> None:
    seen: AbstractSet[Value] = facts.seen.get(key, frozenset())
    order = facts.orders[key]
    # Records before the last record that was read should have been read too.
    bound = max((order.places[value][0] for value in seen), default=-1)
    for value, sent in by_value.items():
        if value in seen:
            continue
        index = next((one.operation for one in sent if facts.happened[one.operation]), None)
        if index is None:
            continue
        last_place = max(order.places.get(value, ()), default=None)
        if last_place is not None and last_place <= bound:
            verdict.add(
                Anomaly.LOST_WRITE,
                f"{value!r} was acknowledged in {key} at offset {last_place}; later records were "
                f"read, up to offset {bound}, but not this one",
                [facts.operations[index]],
            )
        else:
            verdict.add(
                Anomaly.UNSEEN,
                f"{value!r} was acknowledged in {key}"
                f"{'' if last_place is None else f' at offset {last_place}'} and never read",
                [facts.operations[index]],
            )


def _listed(items: Iterable[Value]) -> str:
    return ", ".join(map(repr, items))
