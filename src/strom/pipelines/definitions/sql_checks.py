"""Validates the SELECT of a view: everything that would be silently ignored is rejected.

The lists contain only what the translation reads, so that a new clause of the parser cannot change the
meaning of views.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strom.model.errors import UserError

if TYPE_CHECKING:
    from sqlglot import exp

_CLAUSES = {"expressions", "from_", "from", "where", "group"}
_NOT_A_FOLD = (
    "is not supported in a view, because it is not a fold over single records. Use it in a query "
    "over the "
    "view; join with tables in Python's `prepare`."
)
_UNITS = {
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "dayofyear",
    "week",
    "month",
    "quarter",
    "year",
}
"""Words that the parser keeps in the choice of a function."""
_WORDS = {"VAR", "STRING", "NUMBER", "IDENTIFIER"}
_TIME_ZONE = re.compile(r"\bAT\s+TIME\s+ZONE\b", re.IGNORECASE)
"""Tokens that become functions."""
_FRACTION = re.compile(r"^0\.(?=\d+$)")
"""The tokenizer splits .5 into a dot and a number, which is printed as 0.5."""


def check_clauses(tree: "exp.Select") -> None:
    """Raise UserError for an unsupported clause, or part of one."""
    from sqlglot import exp

    for clause, value in tree.args.items():
        if value and clause not in _CLAUSES:
            raise UserError(f"{_clause(clause)} {_NOT_A_FOLD}")
    group = tree.args.get("group")
    for part, value in group.args.items() if group else ():
        if value and part != "expressions":
            raise UserError(f"GROUP BY … {part.upper()} {_NOT_A_FOLD}")
    for key in group.expressions if group else ():
        if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets) or key.name == "strom_rollup":
            raise UserError(f"GROUP BY with ROLLUP, CUBE or GROUPING SETS {_NOT_A_FOLD}")
    source = tree.args.get("from_") or tree.args.get("from")
    if source is not None:
        _check_source(source.this)


def _check_source(source: "exp.Expr") -> None:
    from sqlglot import exp

    if not isinstance(source, exp.Table):
        raise UserError(
            f"A view must read one stream or view by its name, not {source.sql(dialect='spark')}."
        )
    extra = [part for part, value in source.args.items() if value and part not in {"this", "alias"}]
    alias = source.args.get("alias")
    if extra or (alias and alias.args.get("columns")):
        raise UserError(
            f"FROM {source.sql(dialect='spark')} is not supported in a view: "
            "read one stream or view by its name."
        )


def check_nothing_dropped(text: str, tree: "exp.Select") -> None:
    """Raise UserError if the parser has dropped a name or a value, as it does for some arguments."""
    missing = _words(text) - _words(tree.sql(dialect="spark")) - _defaults(tree)
    if missing:
        word = next(iter(missing))
        raise UserError(f"{word!r} is not supported here. Rewrite the expression.")


def keep_formats(tree: "exp.Select") -> None:
    """Make TO_DATE keep the format 'yyyy-MM-dd': without one, Spark accepts other formats too."""
    from sqlglot import exp

    for call in list(tree.find_all(exp.TsOrDsToDate)):
        if call.args.get("format") and len(_words(call.sql(dialect="spark"))) == len(
            _words(call.this.sql(dialect="spark"))
        ):
            kept = exp.Literal.string("yyyy-MM-dd")
            call.replace(exp.Anonymous(this="TO_DATE", expressions=[call.this.copy(), kept]))


def _defaults(tree: "exp.Select") -> Counter[str]:
    """Values that are omitted because they are the defaults of their functions."""
    from sqlglot import exp

    values: Counter[str] = Counter()
    for call in tree.find_all(exp.RegexpExtract, exp.UnixToStr, exp.StrToUnix):
        if isinstance(call, exp.RegexpExtract):
            group = call.args.get("group")
            values["1"] += group is not None and group.name == "1"
        elif call.args.get("format"):
            values["yyyy-mm-dd hh:mm:ss"] += 1
    return values


def check_expression(one: "exp.Expr") -> None:
    """Raise UserError if a row's expression contains measures, windows or subqueries."""
    from sqlglot import exp

    for part in one.walk():
        if isinstance(part, exp.Query | exp.Subquery):
            raise UserError(
                f"{part.sql(dialect='spark')} is a subquery. Join with tables in Python's `prepare`."
            )
        if isinstance(part, exp.AggFunc | exp.Window | exp.Filter | exp.WithinGroup):
            raise UserError(
                f"{_shown(part)} is inside an expression, or is not a measure. Name each measure "
                "by itself, "
                "and compute with them in a query over the view."
            )


def check_measure(call: "exp.Expr") -> None:
    """Raise UserError for an unsupported addition to a measure."""
    from sqlglot import exp

    if not isinstance(call, exp.Func):
        raise UserError(
            f"{_shown(call)}: a measure has no FILTER, OVER or NULLS. Use CASE WHEN … END in the "
            "argument."
        )
    for part in call.walk():
        inner = part is not call
        if isinstance(part, exp.Distinct) and not isinstance(call, exp.Count):
            raise UserError(f"{_shown(call)}: DISTINCT is supported for count only.")
        if inner and isinstance(part, exp.Query | exp.Subquery | exp.AggFunc | exp.Window):
            raise UserError(f"{_shown(call)}: the argument of a measure must not contain measures.")


def check_star(one: "exp.Expr") -> None:
    """Raise UserError for a star with EXCEPT and the like, or of a column."""
    from sqlglot import exp

    star = one.this if isinstance(one, exp.Column) else one
    if one.args.get("table") or any(star.args.values()):
        raise UserError(f"{one.sql(dialect='spark')} is not supported: list the columns.")


def without_qualifiers(tree: "exp.Select") -> None:
    """Remove the source's name, or its alias, from columns: there is only one source."""
    from sqlglot import exp

    source = tree.args.get("from_") or tree.args.get("from")
    for column in tree.find_all(exp.Column):
        if source is not None and column.table == source.this.alias_or_name and not column.db:
            column.set("table", None)


def names_in(one: "exp.Expr") -> set[str]:
    """The columns that an expression reads."""
    from sqlglot import exp

    # In payload.field the column is payload; the parser takes it for a table.
    return {(column.parts[0]).name for column in one.find_all(exp.Column)}


def renamed(one: "exp.Expr", names: Mapping[str, str]) -> "exp.Expr":
    """An expression with renamed columns."""
    from sqlglot import exp

    made = one.copy()
    for column in made.find_all(exp.Column):
        first = column.parts[0]
        if first.name in names:
            first.set("this", names[first.name])
    return made


def in_order(columns: Mapping[str, "exp.Expr"], known: set[str] | None) -> list[str]:
    """An order in which the columns can be computed with SQL's semantics.

    A name of the source refers to the source's column in all of SELECT; another one to the expression
    that SELECT gives that name.
    """
    after: dict[str, set[str]] = {name: set() for name in columns}
    written = list(columns)
    for name, one in columns.items():
        for other in (names_in(one) & set(columns)) - {name}:
            earlier = written.index(other) < written.index(name)
            if known is None and earlier:
                raise UserError(
                    f"{name} reads {other}, which is ambiguous: a column of the source, or the "
                    "one that SELECT "
                    "computes. Choose another name."
                )
            if known is None or other in known:
                after[other].add(name)
            else:
                after[name].add(other)
    order: list[str] = []
    while len(order) < len(columns):
        free = [name for name in columns if name not in order and after[name] <= set(order)]
        if not free:
            waiting = ", ".join(name for name in columns if name not in order)
            raise UserError(f"{waiting} refer to each other's old values: choose other names.")
        order.append(free[0])
    return order


def _words(text: str) -> Counter[str]:
    """Names and values with their counts; names of functions may differ."""
    import sqlglot

    text = _TIME_ZONE.sub(" ", text)
    tokens: list[Any] = sqlglot.tokenize(text, dialect="spark")
    words: Counter[str] = Counter()
    kinds = ["", *(token.token_type.name for token in tokens), ""]
    for token, before, following in zip(tokens, kinds, kinds[2:], strict=False):
        if token.token_type.name not in _WORDS or following == "L_PAREN":
            continue
        word = _FRACTION.sub("", token.text.lower())
        # INTERVAL '1 hour' becomes INTERVAL '1' HOUR.
        for one in word.split() if before == "INTERVAL" else [word]:
            if one.rstrip("s") not in _UNITS:
                words[one] += 1
    return words


def _clause(name: str) -> str:
    return {"with_": "WITH", "with": "WITH", "laterals": "LATERAL"}.get(
        name, name.rstrip("s").upper()
    )


def _shown(one: "exp.Expr") -> str:
    return str(one.sql(dialect="spark")).replace("strom_", "")
