"""A log that is right by being small, with clients that write down what they see of it.

Everything happens in turns that chance decides; transactions of several producers run at the same time.
"""

from dataclasses import dataclass, field
from random import Random

from strom.testing.history import (
    Commit,
    OffsetFetch,
    Operation,
    Outcome,
    Read,
    Recorder,
    Running,
    Send,
    Step,
)

KEYS = ("clicks-0", "clicks-1")
GROUP = "readers"


@dataclass
class Transaction:
    """What a producer has under way."""

    process: str
    running: Running
    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    state: str = "open"


@dataclass
class ReferenceLog:
    """Keys as lists of records, each with the transaction that decides whether it is seen."""

    chance: Random
    recorder: Recorder = field(default_factory=Recorder)
    records: dict[str, list[tuple[int, Transaction | None]]] = field(
        default_factory=lambda: {key: [] for key in KEYS}
    )
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    open: dict[str, Transaction] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    values: int = 0

    def run(self, turns: int) -> list[Operation]:
        """Let chance decide what happens, then decide what is open and read everything."""
        acts = [self._send, self._send, self._poll, self._poll, self._transact, self._transact]
        acts += [self._seek, self._commit, self._ask]
        for _ in range(turns):
            self.chance.choice(acts)()
        for transaction in list(self.open.values()):
            self._decide(transaction)
        for key in KEYS:
            read = self._visible(key, 0, len(self.records[key]))
            self.recorder.note("judge", *read)
        return self.recorder.history()

    def _append(self, key: str, transaction: Transaction | None) -> Send:
        self.values += 1
        self.records[key].append((self.values, transaction))
        return Send(key, self.values, len(self.records[key]) - 1)

    def _send(self) -> None:
        process, key = f"p{self.chance.randrange(2)}", self.chance.choice(KEYS)
        outcome = self.chance.choice((Outcome.OK, Outcome.OK, Outcome.OK, Outcome.UNKNOWN))
        if self.chance.random() < 0.1:  # refused, or lost on its way
            self.values += 1
            failed = self.chance.choice((Outcome.FAILED, Outcome.UNKNOWN))
            self.recorder.note(process, Send(key, self.values), outcome=failed)
            return
        running = self.recorder.begin(process, Send(key, self.values + 1))
        send = self._append(key, None)
        running.end(outcome, [send] if outcome is Outcome.OK else None)

    def _stable_end(self, key: str) -> int:
        records = self.records[key]
        undecided = (
            offset
            for offset, (_, transaction) in enumerate(records)
            if transaction is not None and transaction.state == "open"
        )
        return next(undecided, len(records))

    def _visible(self, key: str, start: int, limit: int) -> list[Read]:
        end = min(self._stable_end(key), start + limit)
        return [
            Read(key, offset, value)
            for offset, (value, transaction) in enumerate(self.records[key][start:end], start)
            if transaction is None or transaction.state == "committed"
        ]

    def _poll(self) -> None:
        process, key = f"c{self.chance.randrange(2)}", self.chance.choice(KEYS)
        running = self.recorder.begin(process)
        running.end(Outcome.OK, self._read_on(process, key))

    def _read_on(self, process: str, key: str) -> list[Read]:
        start, limit = self.positions.get((process, key), 0), self.chance.randint(1, 5)
        read = self._visible(key, start, limit)
        self.positions[process, key] = min(self._stable_end(key), start + limit)
        return read

    def _seek(self) -> None:
        process, key = f"c{self.chance.randrange(2)}", self.chance.choice(KEYS)
        self.positions[process, key] = self.chance.randint(0, self._stable_end(key))
        self.recorder.note(process, moved={key})

    def _transact(self) -> None:
        process = f"t{self.chance.randrange(2)}"
        transaction = self.open.get(process)
        if transaction is None:
            self.open[process] = Transaction(process, self.recorder.begin(process))
        elif self.chance.random() < 0.3:
            self._decide(transaction)
        elif self.chance.random() < 0.4:
            transaction.reads += self._read_on(process, self.chance.choice(KEYS))
        else:
            transaction.sends.append(self._append(self.chance.choice(KEYS), transaction))

    def _decide(self, transaction: Transaction) -> None:
        commit = self.chance.random() < 0.6
        transaction.state = "committed" if commit else "aborted"
        known = self.chance.random() < 0.8
        outcome = Outcome.OK if commit else Outcome.FAILED
        steps: list[Step] = [*transaction.reads, *transaction.sends]
        transaction.running.end(outcome if known else Outcome.UNKNOWN, steps)
        del self.open[transaction.process]

    def _commit(self) -> None:
        key = self.chance.choice(KEYS)
        offset = self.committed.get(key, 0) + self.chance.randint(0, 3)
        lost = self.chance.random() < 0.2
        if not lost:
            self.committed[key] = offset
        outcome = Outcome.UNKNOWN if lost or self.chance.random() < 0.2 else Outcome.OK
        self.recorder.note("m", Commit(GROUP, key, offset), outcome=outcome)

    def _ask(self) -> None:
        key = self.chance.choice(KEYS)
        self.recorder.note("n", OffsetFetch(GROUP, key, self.committed.get(key)))
