"""Which rows of a call are written together, with the same result as record by record.

Only the database knows which keys are equal: `uuid` and `citext` ignore case, `numeric` trailing zeros, a
collation may ignore anything. So rows are written in the order of the log, in runs of the same operation.
If the key columns have an identity (`Column.identity`), equal keys are known here, and the changes of a
key are merged first: several runs become one statement, and a key that is written repeatedly is stored
once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from strom.connect.connectors.databases.dialect import Row, TableId
from strom.connect.connectors.databases.plans import RowBatch, Run, WritePlan


class NetChanges:
    """The net effect of a sequence of writes and deletes on one table whose keys have an identity."""

    def __init__(self) -> None:
        self._plan: WritePlan | None = None
        """How rows are written: all of them with the same columns."""
        self._key_names: frozenset[str] = frozenset()
        self._written: dict[Any, Row] = {}
        self._deleted: dict[Any, tuple[WritePlan, Row]] = {}

    def accepts(self, plan: WritePlan) -> bool:
        """Whether these rows have the same columns as those before."""
        if self._key_names and plan.key_names != self._key_names:
            return False
        return plan.deletes or self._plan is None or plan is self._plan

    @property
    def has_deletes(self) -> bool:
        """Whether there are deletes."""
        return bool(self._deleted)

    def add(self, plan: WritePlan, keys: Iterable[Any], rows: Sequence[Row]) -> None:
        """Add the next rows of the log with their identities; `accepts(plan)` must be true."""
        self._key_names = plan.key_names
        if not plan.deletes:
            self._plan = plan
            self._written.update(zip(keys, rows, strict=True))
            return
        for key, row in zip(keys, rows, strict=True):
            self._written.pop(key, None)
            self._deleted[key] = plan, row

    def batches(self) -> Iterator[RowBatch]:
        """Deletes first: a key that was deleted and then written is a new row.

        An upsert would keep the deleted row's values in columns that the records do not have.
        """
        by_plan: dict[WritePlan, list[Row]] = {}
        for plan, row in self._deleted.values():
            by_plan.setdefault(plan, []).append(row)
        for plan, rows in by_plan.items():
            yield plan.batch(rows, distinct=True)
        if self._plan is not None and self._written:
            yield self._plan.batch(list(self._written.values()), distinct=True)


def batches(runs: Iterable[Run], insert_mode: str) -> Iterator[RowBatch]:
    """The rows of the runs, in an order with the same result as record by record."""
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


def _may_cascade(plan: WritePlan, pending: Mapping[TableId, NetChanges]) -> bool:
    """A delete may affect other tables (ON DELETE CASCADE), so it is not reordered with their rows."""
    others = [changes for table, changes in pending.items() if table != plan.table]
    return bool(others) and (plan.deletes or any(one.has_deletes for one in pending.values()))


def _flush(pending: dict[TableId, NetChanges]) -> Iterator[RowBatch]:
    for changes in pending.values():
        yield from changes.batches()
    pending.clear()
