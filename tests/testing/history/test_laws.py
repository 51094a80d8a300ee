"""A right log never raises an alarm, and each kind of damage raises its own."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from strom.testing.history import (
    Anomaly,
    Commit,
    OffsetFetch,
    Operation,
    Outcome,
    Owns,
    Read,
    Send,
    check_history,
)
from tests.testing.history.reference_log import GROUP, KEYS, ReferenceLog

RANDOMS = st.integers(0, 2**32).map(Random)
Damage = Callable[[list[Operation], Random], None]


def histories(turns=60):
    return RANDOMS.map(lambda chance: (ReferenceLog(chance).run(turns), chance))


@given(histories())
@settings(max_examples=300)
def test_a_right_log_raises_no_alarm(told):
    history, chance = told
    verdict = check_history(history)
    assert verdict.is_sound, verdict.explain()
    chance.shuffle(history)
    assert check_history(history).counts == verdict.counts, "the order of the list means something"


def test_a_long_history_of_a_right_log_raises_no_alarm():
    history = ReferenceLog(Random(7)).run(20_000)
    verdict = check_history(history)
    assert verdict.is_sound, verdict.explain()
    assert verdict.counts[Anomaly.SEND_SKIP_WITHIN], "transactions did not run at the same time"


def choose(history, chance, predicate):
    """One of the operations that can be damaged so; none is no example."""
    fitting = [index for index, one in enumerate(history) if predicate(one)]
    assume(fitting)
    return chance.choice(fitting)


def is_ok(operation):
    return operation.outcome is Outcome.OK


def reads_of(operation):
    return list(operation.reads)


def forget_value(history, key, value):
    """Nobody has read it."""
    for index, one in enumerate(history):
        kept = [
            step
            for step in one.steps
            if not (isinstance(step, Read) and (step.key, step.value) == (key, value))
        ]
        history[index] = replace(one, steps=tuple(kept))


def lose(history, chance):
    """Nobody saw an acknowledged record, though the judge saw later ones."""
    last_read = {key: reads[-1].offset for key in KEYS if (reads := judged(history, key))}
    candidates = [
        send
        for one in history
        if is_ok(one)
        for send in one.sends
        if send.offset is not None and send.offset < last_read.get(send.key, 0)
    ]
    assume(candidates)
    send = chance.choice(candidates)
    forget_value(history, send.key, send.value)


def judged(history, key):
    return [
        read for one in history if one.process == "judge" for read in one.reads if read.key == key
    ]


def cut_the_end(history, chance):
    """The last acknowledged record of a key is gone."""
    key = chance.choice(KEYS)
    reads = judged(history, key)
    assume(reads)
    last = reads[-1]
    assume(any(is_ok(one) and Send(key, last.value, last.offset) in one.steps for one in history))
    forget_value(history, key, last.value)


def double(history, chance):
    """A record is there once more, behind all others."""
    key = chance.choice(KEYS)
    reads = judged(history, key)
    assume(reads)
    again = Read(key, 10_000, chance.choice(reads).value)
    change(history, reads, lambda steps: [*steps, again])


def change(history, reads, how):
    """Change what the judge has read."""
    index = next(
        index
        for index, one in enumerate(history)
        if one.process == "judge" and reads[0] in one.steps
    )
    history[index] = replace(history[index], steps=tuple(how(history[index].steps)))


def mix_up(history, chance):
    """One offset gives one record to the judge and another to someone else."""
    key = chance.choice(KEYS)
    reads = judged(history, key)
    assume(len(reads) > 1)
    place, other = chance.sample(reads, 2)
    late = Read(key, place.offset, other.value)
    history.append(
        replace(history[-1], process="late", steps=(late,), began=10**6, ended=10**6 + 1)
    )


def show_aborted(history, chance):
    """Someone has read a record of an aborted transaction."""
    index = choose(history, chance, lambda one: one.outcome is Outcome.FAILED and any(one.sends))
    send = chance.choice(list(history[index].sends))
    offset = 10_000 if send.offset is None else send.offset
    add(history, "late", Read(send.key, offset, send.value))


def add(history, process, *steps, outcome=Outcome.OK):
    now = 10**6 + 2 * len(history)
    history.append(Operation(process, steps, outcome, now, now + 1))


def invent(history, chance):
    add(history, "late", Read(chance.choice(KEYS), 10_000, "garbage"))


def show_own(history, chance):
    """A transaction has read its own record."""
    index = choose(history, chance, lambda one: any(one.sends) and len(one.steps) > 1)
    one = history[index]
    send = chance.choice([send for send in one.sends if send.offset is not None] or [None])
    assume(send is not None)
    read = Read(send.key, send.offset, send.value)
    history[index] = replace(one, steps=(*one.steps, read))


def skip_within(history, chance):
    key = chance.choice(KEYS)
    reads = judged(history, key)
    assume(len(reads) > 2)
    left_out = chance.choice(reads[1:-1])
    change(history, reads, lambda steps: [step for step in steps if step != left_out])
    # Someone else has read all of it, so that nothing is lost.
    add(history, "late", *reads)


def swap_within(history, chance):
    key = chance.choice(KEYS)
    reads = judged(history, key)
    assume(len(reads) > 1)
    change(history, reads, lambda steps: [*steps[1:], steps[0]])


def skip_between(history, chance):
    key = chance.choice(KEYS)
    reads = judged(history, key)
    assume(len(reads) > 2)
    at = chance.randrange(1, len(reads) - 1)
    add(history, "late", *reads[:at])
    add(history, "late", *reads[at + 1 :])


def repeat_between(history, chance):
    key = chance.choice(KEYS)
    reads = judged(history, key)
    assume(reads)
    add(history, "late", *reads)
    add(history, "late", *chance.choice([reads, reads[-1:]]))


def read_too_early(history, chance):
    """A record was read by an operation that had ended before it was sent."""
    index = choose(history, chance, lambda one: is_ok(one) and any(one.sends) and one.began > 1)
    send = chance.choice(list(history[index].sends))
    assume(send.offset is not None)
    early = Read(send.key, send.offset, send.value)
    history.append(Operation("early", (early,), Outcome.OK, -2, -1))


def send_backwards(history, chance):
    key = chance.choice(KEYS)
    add(history, "odd", Send(key, "later", 20_001))
    add(history, "odd", Send(key, "sooner", 20_000))
    add(history, "late", Read(key, 20_000, "sooner"), Read(key, 20_001, "later"))


def send_backwards_within(history, chance):
    key = chance.choice(KEYS)
    add(history, "odd", Send(key, "later", 20_001), Send(key, "sooner", 20_000))
    add(history, "late", Read(key, 20_000, "sooner"), Read(key, 20_001, "later"))


def take_offset_back(history, chance):
    key = chance.choice(KEYS)
    add(history, "m", Commit(GROUP, key, 30_000))
    add(history, "n", OffsetFetch(GROUP, key, chance.choice([None, 0, 29_999])))


def keep_aborted_offset(history, chance):
    key = chance.choice(KEYS)
    add(history, "m", Commit(GROUP, key, 30_000), outcome=Outcome.FAILED)
    add(history, "n", OffsetFetch(GROUP, key, 30_000))


def give_twice(history, chance):
    key = chance.choice(KEYS)
    add(history, "m", Owns(GROUP, 3, key))
    add(history, "n", Owns(GROUP, 3, key))


DAMAGES: dict[Damage, Anomaly] = {
    lose: Anomaly.LOST_WRITE,
    cut_the_end: Anomaly.UNSEEN,
    double: Anomaly.DUPLICATE,
    mix_up: Anomaly.INCONSISTENT_OFFSETS,
    show_aborted: Anomaly.ABORTED_READ,
    invent: Anomaly.INVENTED_READ,
    show_own: Anomaly.PRECOMMITTED_READ,
    skip_within: Anomaly.POLL_SKIP_WITHIN,
    swap_within: Anomaly.NONMONOTONIC_POLL_WITHIN,
    skip_between: Anomaly.POLL_SKIP,
    repeat_between: Anomaly.NONMONOTONIC_POLL,
    read_too_early: Anomaly.READ_CYCLE,
    send_backwards: Anomaly.NONMONOTONIC_SEND,
    send_backwards_within: Anomaly.NONMONOTONIC_SEND_WITHIN,
    take_offset_back: Anomaly.OFFSET_WENT_BACK,
    keep_aborted_offset: Anomaly.ABORTED_OFFSET,
    give_twice: Anomaly.TWO_OWNERS,
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@given(told=histories())
@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])
def test_each_damage_is_found_by_its_name(damage, told):
    history, chance = told
    damage(history, chance)
    verdict = check_history(history)
    assert DAMAGES[damage] in verdict.anomalies, verdict.explain()
    told_kinds = {finding.anomaly for finding in verdict.findings}
    assert told_kinds == set(verdict.counts), "counted but not told"


def test_every_anomaly_that_is_not_allowed_has_its_damage():
    assert set(DAMAGES.values()) == set(Anomaly) - check_history([]).allowed
