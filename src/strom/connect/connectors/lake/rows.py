"""Converts records to rows in the columns of their table. Pure."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from strom.connect.api import PoisonRecord, RecordBatch
from strom.connect.connectors.lake.columns import ColumnSelection, make_tables
from strom.connect.connectors.lake.conversion import Misfit, first_misfit, fit, fits
from strom.connect.connectors.lake.evolution import TableColumns

if TYPE_CHECKING:
    import pyarrow as pa


def rows_of(
    records: RecordBatch,
    wanted: ColumnSelection,
    columns: TableColumns,
    waiting: "Callable[[], Sequence[pa.Table]]",
) -> "tuple[TableColumns, list[pa.Table]]":
    """The table's columns including these records, and the rows.

    `waiting` returns the rows of the same table that are not stored yet. It is called only if columns
    change, because those of rows in memory may still be widened.
    """
    made = make_tables(records, wanted)
    for count, (_, table) in enumerate(made):
        wider = columns.with_rows(table.schema)
        if wider != columns and not fits([*waiting(), *(one for _, one in made[:count])], wider):
            # A large integer before it is not exact as a float. Then this one must be an integer, too.
            wider = columns.with_new_fields(table.schema)
        columns = wider
    return columns, [_fitted(table, columns, start) for start, table in made]


def _fitted(rows: "pa.Table", columns: TableColumns, start: int) -> "pa.Table":
    try:
        return fit(rows, columns)
    except Misfit:
        index, misfit = first_misfit(rows, columns)
        raise PoisonRecord(str(misfit), start + index) from None
