"""Single streams and views in SQL: they become the same values as those written in Python.

CREATE STREAM clicks (user STRING, page STRING, at TIMESTAMP) WITH (topic = 'clicks', time = 'at');

CREATE VIEW page_minutes AS
SELECT window('1 minute'), page, count(*) AS views, avg(ms) AS mean_ms
FROM clicks WHERE page IS NOT NULL
GROUP BY window('1 minute'), page;
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from strom.model.errors import UserError
from strom.pipelines import measures
from strom.pipelines.definitions.keys import Window, window
from strom.pipelines.definitions.place import DefinitionError, Place
from strom.pipelines.definitions.stream import Format, Stream
from strom.pipelines.definitions.types import is_plain_name
from strom.pipelines.definitions.view import Key, View

if TYPE_CHECKING:
    from sqlglot import exp

# `window` and `rollup` are words of SQL's own, which a parser would take for clauses.
_WINDOW = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE)
_WINDOW_FUNCTION = "event_window"
_ROLLUP = re.compile(r"\brollup(?=\s*\()", re.IGNORECASE)
_ROLLUP_FUNCTION = "measure_rollup"
_OPTION = re.compile(r"\s*(\w+)\s*=\s*(?:'([^']*)'|(\d+))\s*(?:,|\Z)")
_STREAM_OPTIONS = {
    "topic",
    "time",
    "format",
    "dead_letters",
    "partitions",
    "schema",
    "subject",
    "version",
}

_MEASURES: dict[str, Callable[..., Any]] = {
    "count": measures.count,
    "sum": measures.sum,
    "min": measures.min,
    "max": measures.max,
    "avg": measures.mean,
    "mean": measures.mean,
    "variance": measures.variance,
    "var_samp": measures.variance,
    "approx_distinct": measures.distinct,
    "approx_count_distinct": measures.distinct,
    "quantile": measures.quantile,
    "approx_quantile": measures.quantile,
    "percentile_approx": measures.quantile,
    "approx_percentile": measures.quantile,
    "top_k": measures.top_k,
    "first": measures.first,
    "last": measures.last,
    "collect_set": measures.collect_set,
    "array_unique_agg": measures.collect_set,
    _ROLLUP_FUNCTION: measures.rollup,
}


def stream_of(name: str, schema: str | None, options: str | None, place: Place) -> Stream:
    """A stream of the parts of its statement."""
    given = {match[1].lower(): match[2] or match[3] for match in _OPTION.finditer(options or "")}
    if unknown := set(given) - _STREAM_OPTIONS:
        raise UserError(
            f"A stream has no option {unknown.pop()}: {', '.join(sorted(_STREAM_OPTIONS))}."
        )
    return Stream(
        given.get("topic", name),
        schema=(schema or given.get("schema") or "").strip(),
        time=given.get("time"),
        format=cast("Format", given.get("format", "json")),
        dead_letters=given.get("dead_letters"),
        partitions=int(given.get("partitions", 3)),
        subject=given.get("subject"),
        version=int(given["version"]) if "version" in given else None,
        place=place,
    )


def parse_select(select: str, place: Place) -> "exp.Select":
    """The SELECT of a view; DefinitionError with its line if it is none."""
    import sqlglot
    from sqlglot import exp

    text = _ROLLUP.sub(_ROLLUP_FUNCTION, _WINDOW.sub(_WINDOW_FUNCTION, select))
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        line = place.line + int(first.get("line") or 1) - 1
        told = str(first.get("description") or error)
        raise DefinitionError(Place(place.file, line), told) from None
    except sqlglot.errors.TokenError:
        raise DefinitionError(place, "A text or a name that begins here does not end.") from None
    if not isinstance(tree, exp.Select):
        raise UserError("A view is a SELECT.")
    for part in ("joins", "having", "order", "limit", "distinct", "laterals", "windows"):
        if tree.args.get(part):
            raise UserError(
                f"{part.upper().rstrip('S')} has no place in a view: it is no fold over single records. "
                "Use it in a query over the view; join with tables in Python's `prepare`."
            )
    return tree


def source_name(tree: "exp.Select") -> str:
    """The stream or view that a SELECT reads."""
    source = tree.args.get("from_") or tree.args.get("from")
    return source.this.name if source is not None else ""


def view_of(name: str, tree: "exp.Select", reads: Stream | View, place: Place) -> View:
    """The view of a SELECT."""
    where = tree.args["where"].this.sql(dialect="spark") if tree.args.get("where") else None
    if not tree.args.get("group") and not any(_measure_of(one) for one in tree.expressions):
        return _rows(name, tree, reads, where, place)
    return _aggregate(name, tree, reads, where, place)


def _filtered(
    reads: Stream | View, where: str | None, columns: Mapping[str, str], place: Place
) -> tuple[Stream | View, str | None]:
    """WHERE sees columns as they were read, whatever SELECT calls by the same names."""
    if not where or not columns or (isinstance(reads, View) and not reads.appends):
        return reads, where
    return View(reads=reads, where=where, place=place), None


def _rows(
    name: str, tree: "exp.Select", reads: Stream | View, where: str | None, place: Place
) -> View:
    """A view without measures."""
    names, columns = [], {}
    for one in tree.expressions:
        if one.is_star:
            names.append("*")
        else:
            names.append(_name_of(one))
            if one.sql() != one.alias_or_name:
                columns[names[-1]] = one.unalias().sql(dialect="spark")
    keep = () if "*" in names else names
    reads, where = _filtered(reads, where, columns, place)
    return View(reads=reads, columns=columns, where=where, select=keep, name=name, place=place)


def _aggregate(
    name: str, tree: "exp.Select", reads: Stream | View, where: str | None, place: Place
) -> View:
    """A view with keys and measures."""
    group = tree.args["group"].expressions if tree.args.get("group") else []
    keys: list[Key] = []
    columns: dict[str, str] = {}
    selected: dict[str, Any] = {}
    found: dict[str, measures.Measure] = {}
    for one in tree.expressions:
        if (measure := _measure_of(one)) is not None:
            found[_name_of(one)] = measure
        else:
            selected[one.unalias().sql()] = one
    aliases = {one.alias: one for one in selected.values() if one.alias}
    for key in group:
        one = selected.pop(key.sql(), None)
        if one is None and (aliased := aliases.get(key.sql())) is not None:
            one = selected.pop(aliased.unalias().sql())
        if one is None:
            raise UserError(f"{key.sql(dialect='spark')} is grouped by, and must be selected too.")
        keys.append(_key(one, columns))
    if selected:
        other = next(iter(selected.values())).sql(dialect="spark")
        raise UserError(f"{other} is neither a measure nor in GROUP BY.")
    reads, where = _filtered(reads, where, columns, place)
    return View(
        reads=reads, keys=keys, measures=found, columns=columns, where=where, name=name, place=place
    )


def _key(one: "exp.Expr", columns: dict[str, str]) -> Key:
    text = one.unalias()
    if _function_name(text) == _WINDOW_FUNCTION:
        spans = [argument.name for argument in _arguments(text)]
        made: Window = window(*spans[:2], name=one.alias or "window_start")
        return made
    name = _name_of(one)
    if text.sql(dialect="spark") != name:
        columns[name] = text.sql(dialect="spark")
    return name


def _measure_of(one: "exp.Expr") -> measures.Measure | None:
    from sqlglot import exp

    function = one.unalias()
    if isinstance(function, exp.Count) and isinstance(function.this, exp.Distinct):
        column = function.this.expressions[0].sql(dialect="spark")
        return measures.distinct(column, exact=True)
    make = _MEASURES.get(_function_name(function))
    if make is None:
        return None
    arguments = _arguments(function)
    if not arguments or isinstance(arguments[0], exp.Star):
        return cast("measures.Measure", make())
    column = arguments[0].sql(dialect="spark")
    rest = [float(a.name) if "." in a.name else int(a.name) for a in arguments[1:]]
    return cast("measures.Measure", make(column, *rest))


def _function_name(one: "exp.Expr") -> str:
    from sqlglot import exp

    if isinstance(one, exp.Anonymous):
        return str(one.this).lower()
    return one.sql_name().lower() if isinstance(one, exp.Func) else ""


def _arguments(one: "exp.Expr") -> list[Any]:
    from sqlglot import exp

    if isinstance(one, exp.Anonymous):
        return list(one.expressions)
    values = [value for value in one.args.values() if isinstance(value, exp.Expr | list)]
    flat = [inner for value in values for inner in (value if isinstance(value, list) else [value])]
    return [value for value in flat if isinstance(value, exp.Expr)]


def _name_of(one: "exp.Expr") -> str:
    name = one.alias_or_name
    if not name or not is_plain_name(name):
        raise UserError(f"{one.sql(dialect='spark')} needs a name: … AS name.")
    return name
