"""The SQL for DuckDB that merges partial states and computes the values of measures."""

from collections.abc import Mapping

from strom.pipelines.definitions.keys import Window
from strom.pipelines.measures.measure import Fold
from strom.pipelines.views.fold import PART, ViewFold, item_column, state_columns

_RUNNING = "__running"
_TOTAL = "__total"


def merge_statement(fold: ViewFold, source: str, types: Mapping[str, str] | None = None) -> str:
    """The SELECT statement that merges partial states to one state per key, with the same columns.

    DuckDB widens the types of sums. To store the states again, pass the `types` to cast columns to.
    """
    if fold.view.appends:
        return f"SELECT * FROM {source}"
    columns = [_quoted(name) for name in fold.grouping]
    for name, one in fold.folds.items():
        names = {state: _quoted(column) for state, column in state_columns(name, one).items()}
        for state in one.states:
            merged = state.merge.format(names[state.name], **names)
            if types:
                merged = f"CAST({merged} AS {types[f'{name}__{state.name}']})"
            columns.append(f"{merged} AS {names[state.name]}")
    return f"SELECT {', '.join(columns)} FROM {source}{_group_by(fold.grouping)}"


def finish_statement(fold: ViewFold, source: str, *, merged: bool = False) -> str:
    """The SELECT statement that computes a view's values from states, which may be `merged` already."""
    if fold.view.appends:
        return f"SELECT * FROM {source}"
    states = source if merged else f"({merge_statement(fold, source)})"
    keys = _key_columns(fold)
    if not fold.tallies:
        values = [f"{_finish(name, one)} AS {_quoted(name)}" for name, one in fold.folds.items()]
        return f"SELECT {', '.join([*keys, *values])} FROM {states}"
    values = []
    for name, one in fold.folds.items():
        if one.item is None:
            value = _finish(name, one, "any_value({}) FILTER (" + f"{PART} = 0)")
        else:
            value = _finish_tally(fold, name, one)
        values.append(f"{value} AS {_quoted(name)}")
    columns = ", ".join([*keys, *values])
    return f"SELECT {columns} FROM {_ranked(fold, states)}{_group_by(fold.view.key_names)}"


def _finish(name: str, fold: Fold, state: str = "{}") -> str:
    """The value of a measure; `state` is the format of a reference to a state column."""
    columns = state_columns(name, fold).items()
    return fold.finish.format(**{one: state.format(_quoted(column)) for one, column in columns})


def _finish_tally(fold: ViewFold, name: str, one: Fold) -> str:
    columns = {state: _quoted(column) for state, column in state_columns(name, one).items()}
    return one.finish.format(
        item=_quoted(item_column(name)),
        rows=f"{PART} = {fold.parts[name]}",
        running=_RUNNING,
        total=_TOTAL,
        **columns,
    )


def _ranked(fold: ViewFold, merged: str) -> str:
    """The merged rows, with running totals of counts in the order of items if a tally needs them."""
    if not any("{running}" in one.finish for one in fold.tallies.values()):
        return merged
    counts = [_quoted(state_columns(name, one)["n"]) for name, one in fold.tallies.items()]
    count = f"coalesce({', '.join(counts)}, 0)"
    group = ", ".join([*map(_quoted, fold.view.key_names), PART])
    order = ", ".join(_quoted(item_column(name)) for name in fold.tallies)
    return (
        f"(SELECT *, sum({count}) OVER (PARTITION BY {group} ORDER BY {order}) AS {_RUNNING}, "
        f"sum({count}) OVER (PARTITION BY {group}) AS {_TOTAL} FROM {merged})"
    )


def _key_columns(fold: ViewFold) -> list[str]:
    columns = []
    for key in fold.view.keys:
        if not isinstance(key, Window):
            columns.append(_quoted(key))
            continue
        start = _quoted(key.name)
        end = f"{start} + INTERVAL {key.length_us} MICROSECOND AS {_quoted(key.end_name)}"
        columns += [start, end]
    return columns


def _group_by(columns: list[str]) -> str:
    return f" GROUP BY {', '.join(map(_quoted, columns))}" if columns else ""


def _quoted(name: str) -> str:
    return f'"{name}"'
