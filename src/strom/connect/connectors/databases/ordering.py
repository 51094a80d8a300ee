"""Which rows of a call are written together, so that a table ends as record by record would have.

Only the database knows which keys are equal: `uuid` and `citext` ignore case, `numeric` trailing
zeros, a collation may ignore anything. So rows are written in the order of the log, in runs of the
same kind. Where a key's columns have an identity (`Column.identity`), equal keys are known here, and
the changes of a key are merged first: several runs become one statement, and a key that is written
again and again is stored once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from strom.connect.connectors.databases.dialect import Row, TableId
from strom.connect.connectors.databases.plans import Batch, Plan, Run


class NetChanges:
    """What a sequence of writes and deletes amounts to, for one table whose keys have an identity."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        """How rows are written: all of them with the same columns."""
        self._key_names: frozenset[str] = frozenset()
        self._written: dict[Any, Row] = {}
        self._deleted: dict[Any, tuple[Plan, Row]] = {}

    def accepts(self, plan: Plan) -> bool:
        """Whether these rows have the columns of those before; others would have to be kept apart."""
        if self._key_names and plan.key_names != self._key_names:
            return False
        return plan.deletes or self._plan is None or plan is self._plan

    @property
    def has_deletes(self) -> bool:
        """Whether a row may be deleted."""
        return bool(self._deleted)

    def add(self, plan: Plan, keys: Iterable[Any], rows: Sequence[Row]) -> None:
        """Rows that follow in the log, and their identities. `accepts` has to be true of the plan."""
        self._key_names = plan.key_names
        if not plan.deletes:
            self._plan = plan
            self._written.update(zip(keys, rows, strict=True))
            return
        for key, row in zip(keys, rows, strict=True):
            self._written.pop(key, None)
            self._deleted[key] = plan, row

    def batches(self) -> Iterator[Batch]:
        """Deletes first: a key that was deleted and then written is a new row.

        An upsert instead would keep what the deleted row had in columns that records do not bring.
        """
        by_plan: dict[Plan, list[Row]] = {}
        for plan, row in self._deleted.values():
            by_plan.setdefault(plan, []).append(row)
        for plan, rows in by_plan.items():
            yield plan.batch(rows, distinct=True)
        if self._plan is not None and self._written:
            yield self._plan.batch(list(self._written.values()), distinct=True)


def batches(runs: Iterable[Run], insert_mode: str) -> Iterator[Batch]:
    """The rows of the runs, in an order that leaves the tables as record by record would have."""
    pending: dict[TableId, NetChanges] = {}
    for plan, records in runs:
        rows = plan.rows(records)
        if insert_mode == "insert" or plan.identity is None:
            yield from _flush(pending)
            yield plan.batch(rows, distinct=False)
            continue
        changes = pending.get(plan.table)
        if (changes and not changes.accepts(plan)) or _may_cascade(plan, pending):
            yield from _flush(pending)
        pending.setdefault(plan.table, NetChanges()).add(plan, map(plan.identity, rows), rows)
    yield from _flush(pending)


def _may_cascade(plan: Plan, pending: Mapping[TableId, NetChanges]) -> bool:
    """A delete may reach into other tables (ON DELETE CASCADE), so it is not moved past their rows."""
    others = [changes for table, changes in pending.items() if table != plan.table]
    return bool(others) and (plan.deletes or any(one.has_deletes for one in pending.values()))


def _flush(pending: dict[TableId, NetChanges]) -> Iterator[Batch]:
    for changes in pending.values():
        yield from changes.batches()
    pending.clear()
