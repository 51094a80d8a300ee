"""The SQL that computes partial states in DuckDB, as Spark does: for views without Java.

It supports the SQL of a view that both engines understand (`columns`, `where`), but no `prepare`.
"""

from strom.pipelines.definitions.view import View
from strom.pipelines.views.fold import (
    PART,
    RECORD,
    ViewFold,
    item_column,
    key_column,
    state_columns,
    window_start,
)


def partial_statement(fold: ViewFold, source: str) -> str:
    """The SELECT statement that reduces the rows of `source` to partial states."""
    view = fold.view
    if view.appends:
        return f"SELECT * FROM {source}"
    rows = _windowed(view, _prepared(view, source))
    if view.rolls_up:
        keys = [f"{_quoted(name)} AS {_quoted(key_column(name))}" for name in view.key_names]
        rows = f"(SELECT {', '.join([*keys, f'unnest({RECORD})'])} FROM {rows})"
    if fold.tallies:
        parts = f"(SELECT *, unnest(range({len(fold.tallies) + 1})) AS {PART} FROM {rows})"
        items = [
            f"CASE WHEN {PART} = {fold.parts[name]} THEN {one.item.duckdb} END "
            f"AS {_quoted(item_column(name))}"
            for name, one in fold.tallies.items()
            if one.item
        ]
        present = " OR ".join(
            [f"{PART} = 0", *(f"{_quoted(item_column(name))} IS NOT NULL" for name in fold.tallies)]
        )
        rows = f"(SELECT * FROM (SELECT *, {', '.join(items)} FROM {parts}) WHERE {present})"
    columns = [
        f"{_quoted(inner)} AS {_quoted(name)}"
        for inner, name in zip(fold.grouping_of_rows, fold.grouping, strict=True)
    ]
    for name, one in fold.folds.items():
        names = state_columns(name, one)
        for state in one.states:
            text = state.partial.duckdb
            if fold.tallies:
                text = f"CASE WHEN {PART} = {fold.parts.get(name, 0)} THEN {text} END"
            columns.append(f"{text} AS {_quoted(names[state.name])}")
    return f"SELECT {', '.join(columns)} FROM {rows}{_group_by(fold.grouping_of_rows)}"


def _prepared(view: View, source: str) -> str:
    rows, known = source, set(view.stream.columns)
    for step in view.steps:
        if step.rolls_up is not None:
            rows = _groups(step.rolls_up, rows, sealed=RECORD in known)
            known = {*step.rolls_up.key_names, RECORD}
        for name, text in step.columns.items():
            column = f"{text} AS {_quoted(name)}"
            every = f"* REPLACE ({column})" if name in known else f"*, {column}"
            rows = f"(SELECT {every} FROM {rows})"
            known.add(name)
        if step.where:
            rows = f"(SELECT * FROM {rows} WHERE {step.where})"
    return rows


def _groups(view: View, rows: str, *, sealed: bool) -> str:
    """The keys of each record's group, and the record itself in column RECORD."""
    sealing = "" if sealed else f", whole AS {RECORD}"
    rows = _windowed(view, f"(SELECT *{sealing} FROM {rows} AS whole)")
    keys = [_quoted(name) for name in view.key_names]
    for window in view.windows:
        length = f"INTERVAL {window.length_us} MICROSECOND"
        keys.append(f"{_quoted(window.name)} + {length} AS {_quoted(window.end_name)}")
    return f"(SELECT {', '.join([*keys, RECORD])} FROM {rows})"


def _windowed(view: View, rows: str) -> str:
    for window in view.windows:
        start = window_start(window, view.time or "").duckdb
        listed = f"unnest({start})" if window.overlaps > 1 else start
        old = f" EXCLUDE ({_quoted(window.name)})" if view.time == window.name else ""
        rows = f"(SELECT *{old}, {listed} AS {_quoted(window.name)} FROM {rows})"
    return rows


def _group_by(columns: list[str]) -> str:
    return f" GROUP BY {', '.join(map(_quoted, columns))}" if columns else ""


def _quoted(name: str) -> str:
    return f'"{name}"'
