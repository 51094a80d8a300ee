"""Single streams and views in SQL, translated to the same values as those defined in Python.

CREATE STREAM clicks (user STRING, page STRING, at TIMESTAMP) WITH (topic = 'clicks', time = 'at');

CREATE VIEW page_minutes AS
SELECT window('1 minute'), page, count(*) AS views, avg(ms) AS mean_ms
FROM clicks WHERE page IS NOT NULL
GROUP BY window('1 minute'), page;
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from strom.model.errors import UserError
from strom.pipelines import measures
from strom.pipelines.definitions.keys import Window, window
from strom.pipelines.definitions.place import DefinitionError, SourceLocation
from strom.pipelines.definitions.sql_checks import (
    check_clauses,
    check_expression,
    check_measure,
    check_nothing_dropped,
    check_star,
    in_order,
    keep_formats,
    names_in,
    renamed,
    without_qualifiers,
)
from strom.pipelines.definitions.stream import Format, Stream
from strom.pipelines.definitions.types import is_plain_name
from strom.pipelines.definitions.view import Key, View

if TYPE_CHECKING:
    from sqlglot import exp

# Words that the parser would take for clauses, or for functions with other arguments; strings and quoted
# names are not changed.
_RENAMED = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\b(window|rollup|first|last)(?=\s*\()",
    re.IGNORECASE | re.DOTALL,
)
_PREFIX = "strom_"
_WINDOW_FUNCTION = f"{_PREFIX}window"
_OPTION = re.compile(r"\s*(\w+)\s*=\s*(?:'((?:[^']|'')*)'|(\d+))\s*(?:,|\Z)")
_NUMBERS = {"partitions", "version"}
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


@dataclass(frozen=True)
class _Function:
    """A measure as an SQL function."""

    make: Callable[..., Any]
    further: tuple[str, ...] = ()
    """The Python names of the arguments after the column."""
    optional: bool = False
    """Whether these arguments are optional."""


_MEASURES = {
    "sum": _Function(measures.sum),
    "min": _Function(measures.min),
    "max": _Function(measures.max),
    "avg": _Function(measures.mean),
    "mean": _Function(measures.mean),
    "variance": _Function(measures.variance),
    "var_samp": _Function(measures.variance),
    "approx_distinct": _Function(measures.distinct, ("error",), optional=True),
    "approx_count_distinct": _Function(measures.distinct, ("error",), optional=True),
    "quantile": _Function(measures.quantile, ("q",)),
    "approx_quantile": _Function(measures.quantile, ("q",)),
    "percentile_approx": _Function(measures.quantile, ("q",)),
    "approx_percentile": _Function(measures.quantile, ("q",)),
    "top_k": _Function(measures.top_k, ("k",)),
    "collect_set": _Function(measures.collect_set),
    "array_unique_agg": _Function(measures.collect_set),
    f"{_PREFIX}first": _Function(measures.first, ("by",), optional=True),
    f"{_PREFIX}last": _Function(measures.last, ("by",), optional=True),
    f"{_PREFIX}rollup": _Function(measures.rollup),
}


def stream_of(name: str, schema: str | None, options: str | None, place: SourceLocation) -> Stream:
    """The stream of a CREATE STREAM statement."""
    given = _options(options or "")
    if schema and "schema" in given:
        raise UserError("The columns are given twice: in parentheses, and as an option.")
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


def _options(text: str) -> dict[str, str]:
    """The options of WITH; UserError if they are invalid."""
    given: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        found = _OPTION.match(text, at)
        if found is None:
            raise UserError(f"WITH ({text[at:].strip()}) is invalid: use name = 'value'.")
        name, at = found[1].lower(), found.end()
        if name not in _STREAM_OPTIONS:
            known = ", ".join(sorted(_STREAM_OPTIONS))
            raise UserError(f"Unknown option {name} of a stream. Options: {known}.")
        if name in given:
            raise UserError(f"The option {name} is given twice.")
        if (name in _NUMBERS) != (found[3] is not None):
            kind = "a number" if name in _NUMBERS else "a string in quotes"
            raise UserError(f"The option {name} must be {kind}.")
        given[name] = found[3] or found[2].replace("''", "'")
    return given


def parse_select(select: str, place: SourceLocation) -> "exp.Select":
    """Parse the SELECT of a view; DefinitionError with its line if it is invalid."""
    import sqlglot
    from sqlglot import exp

    text = _RENAMED.sub(lambda one: f"{_PREFIX}{one[1].lower()}" if one[1] else one[0], select)
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        line = place.line + int(first.get("line") or 1) - 1
        reason = str(first.get("description") or error)
        raise DefinitionError(SourceLocation(place.file, line), reason) from None
    except sqlglot.errors.TokenError:
        raise DefinitionError(
            place, "A string or quoted name that starts here is not closed."
        ) from None
    if not isinstance(tree, exp.Select):
        raise UserError("A view must be a SELECT.")
    keep_formats(tree)
    check_nothing_dropped(text, tree)
    check_clauses(tree)
    return tree


def source_name(tree: "exp.Select") -> str:
    """The stream or view that a SELECT reads."""
    source = tree.args.get("from_") or tree.args.get("from")
    return source.this.name if source is not None else ""


def view_of(name: str, tree: "exp.Select", reads: Stream | View, place: SourceLocation) -> View:
    """The view that a SELECT defines."""
    without_qualifiers(tree)
    where = tree.args["where"].this if tree.args.get("where") else None
    if where is not None:
        check_expression(where)
    if not tree.args.get("group") and not any(_is_measure(one) for one in tree.expressions):
        return _rows(name, tree, reads, where, place)
    return _aggregate(name, tree, reads, where, place)


def _filtered(
    reads: Stream | View,
    where: "exp.Expr | None",
    columns: Mapping[str, Any],
    place: SourceLocation,
) -> tuple[Stream | View, str | None]:
    """WHERE refers to the columns of the source, even if SELECT uses the same names."""
    if where is None:
        return reads, None
    text = where.sql(dialect="spark")
    if isinstance(reads, View) and not reads.appends:
        if shadowed := sorted(names_in(where) & set(columns)):
            raise UserError(
                f"WHERE reads {shadowed[0]}, but SELECT gives that name to another expression: "
                "choose another name in SELECT."
            )
        return reads, text
    if not columns:
        return reads, text
    return View(reads=reads, where=text, place=place), None


def _rows(
    name: str,
    tree: "exp.Select",
    reads: Stream | View,
    where: "exp.Expr | None",
    place: SourceLocation,
) -> View:
    """A view without measures."""
    names: list[str] = []
    columns: dict[str, exp.Expr] = {}
    for one in tree.expressions:
        if one.is_star:
            check_star(one)
            names.append("*")
            continue
        check_expression(one)
        names.append(_name_of(one))
        if one.sql() != one.alias_or_name:
            columns[names[-1]] = one.unalias()
    _check_names(names)
    keep = () if "*" in names else names
    made = {one: columns[one].sql(dialect="spark") for one in in_order(columns, _known(reads))}
    reads, text = _filtered(reads, where, columns, place)
    return View(reads=reads, columns=made, where=text, select=keep, name=name, place=place)


def _aggregate(
    name: str,
    tree: "exp.Select",
    reads: Stream | View,
    where: "exp.Expr | None",
    place: SourceLocation,
) -> View:
    """A view with keys and measures."""
    measured = {_name_of(one): one.unalias() for one in tree.expressions if _is_measure(one)}
    keys, columns = _keys(tree)
    _check_names([_name_of(one) for one in tree.expressions if not _is_window(one)])
    if (time := reads.time if isinstance(reads, View) else reads.event_time) in columns:
        raise UserError(f"{time} is the time column of the windows: choose another name in SELECT.")
    known = _known(reads)
    made = {one: columns[one].sql(dialect="spark") for one in in_order(columns, known)}
    # Measures refer to the columns of the source, too.
    shadowed = {
        one: f"{one}_as_read"
        for one in sorted(set(columns) & _read_by(measured.values()))
        if known is None or one in known
    }
    if taken := set(shadowed.values()) & {*(known or ()), *made, *measured}:
        raise UserError(f"The column {taken.pop()} exists already: choose another name in SELECT.")
    made = {new: one for one, new in shadowed.items()} | made
    found = {one: _measure(renamed(call, shadowed)) for one, call in measured.items()}
    reads, text = _filtered(reads, where, columns, place)
    return View(
        reads=reads, keys=keys, measures=found, columns=made, where=text, name=name, place=place
    )


def _keys(tree: "exp.Select") -> tuple[list[Key], dict[str, "exp.Expr"]]:
    """The keys, and the columns to compute for them."""
    group = tree.args["group"].expressions if tree.args.get("group") else []
    selected: dict[str, Any] = {}
    for one in tree.expressions:
        if not _is_measure(one):
            check_expression(one)
            if selected.setdefault(one.unalias().sql(), one) is not one:
                raise UserError(f"{one.unalias().sql(dialect='spark')} is selected twice.")
    aliases = {one.alias: one for one in selected.values() if one.alias}
    keys: list[Key] = []
    columns: dict[str, exp.Expr] = {}
    for key in group:
        one = selected.pop(key.sql(), None)
        if one is None and (aliased := aliases.get(key.sql())) is not None:
            one = selected.pop(aliased.unalias().sql(), None)
        if one is None:
            raise UserError(
                f"{_as_written(key)} is in GROUP BY, and must be selected exactly once."
            )
        keys.append(_key(one, columns))
    if selected:
        other = _as_written(next(iter(selected.values())))
        raise UserError(f"{other} is neither a measure nor in GROUP BY.")
    return keys, columns


def _key(one: "exp.Expr", columns: dict[str, "exp.Expr"]) -> Key:
    text = one.unalias()
    if _is_window(one):
        spans = _texts(text)
        made: Window = window(*spans, name=one.alias or "window_start")
        return made
    name = _name_of(one)
    if text.sql(dialect="spark") != name:
        columns[name] = text
    return name


def _texts(call: "exp.Expr") -> list[str]:
    """The arguments of window(): one or two durations."""
    from sqlglot import exp

    arguments = _arguments(call)
    if not 1 <= len(arguments) <= 2 or not all(
        isinstance(one, exp.Literal) and one.is_string for one in arguments
    ):
        raise UserError(
            f"{_as_written(call)}: a window has a length and an optional step, as in "
            "window('1 hour', '5 minutes')."
        )
    return [str(one.name) for one in arguments]


def _measure(call: "exp.Expr") -> measures.Measure:
    """The measure of a function call; UserError if it is invalid."""
    from sqlglot import exp

    check_measure(call)
    arguments = _arguments(call)
    written = _as_written(call)
    if isinstance(call, exp.Count):
        return _count(call, arguments, written)
    known = _MEASURES[_function_name(call)]
    fewest = 1 if known.optional else 1 + len(known.further)
    if not fewest <= len(arguments) <= 1 + len(known.further):
        more = "".join(f", {name}" for name in known.further)
        raise UserError(f"{written}: the arguments must be (column{more}).")
    column, *rest = arguments
    values = {
        name: one.sql(dialect="spark") if name == "by" else _number(one, written)
        for name, one in zip(known.further, rest, strict=False)
    }
    if any(isinstance(one, exp.Boolean) for one in rest):
        raise UserError(f"{written}: the second argument must be the column to order by.")
    return cast("measures.Measure", known.make(column.sql(dialect="spark"), **values))


def _count(call: "exp.Expr", arguments: list[Any], written: str) -> measures.Measure:
    from sqlglot import exp

    if isinstance(call.this, exp.Distinct):
        of = call.this.expressions
        if len(of) != 1 or call.this.args.get("on") or len(arguments) != 1:
            raise UserError(f"{written} has several columns: count one, such as a struct of them.")
        return measures.distinct(of[0].sql(dialect="spark"), exact=True)
    if len(arguments) != 1:
        raise UserError(f"{written}: count takes one argument.")
    if isinstance(arguments[0], exp.Star):
        return measures.count()
    return measures.count(arguments[0].sql(dialect="spark"))


def _number(one: "exp.Expr", written: str) -> float:
    from sqlglot import exp

    if not isinstance(one, exp.Literal) or one.is_string:
        raise UserError(f"{written}: {one.sql(dialect='spark')} must be a plain number.")
    return float(one.name) if "." in one.name or "e" in one.name.lower() else int(one.name)


def _read_by(calls: Iterable["exp.Expr"]) -> set[str]:
    return {name for call in calls for name in names_in(call)}


def _known(reads: Stream | View) -> set[str] | None:
    """The columns that a SELECT can read; None if only Spark knows them."""
    if isinstance(reads, Stream):
        return set(reads.columns) if reads.resolved else None
    columns = reads.known_columns if reads.appends else reads.key_columns
    return None if columns is None else set(columns)


def _check_names(names: list[str]) -> None:
    if double := next((one for one in names if names.count(one) > 1), None):
        raise UserError(f"SELECT has {double} twice: choose another name with AS.")


def _is_window(one: "exp.Expr") -> bool:
    return _function_name(one.unalias()) == _WINDOW_FUNCTION


def _is_measure(one: "exp.Expr") -> bool:
    """Whether an item of SELECT is a measure, possibly with unsupported additions."""
    from sqlglot import exp

    call = one.unalias()
    while isinstance(call, exp.Filter | exp.Window | exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    return isinstance(call, exp.Count) or _function_name(call) in _MEASURES


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


def _as_written(one: "exp.Expr") -> str:
    return str(one.sql(dialect="spark")).replace(_PREFIX, "")


def _name_of(one: "exp.Expr") -> str:
    name = one.alias_or_name
    if not name or not is_plain_name(name):
        raise UserError(f"{_as_written(one)} needs a name: add AS name.")
    return name
