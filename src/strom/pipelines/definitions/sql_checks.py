"""What a view's SELECT may consist of: whatever would be passed over in silence is refused.

Only the parts that a translation looks at are on the lists here; a parser that learns a new clause does
not make views mean something else.
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
    "has no place in a view: it is no fold over single records. Use it in a query over the view; join "
    "with tables in Python's `prepare`."
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
"""Words that a parser keeps in the choice of a function."""
_WORDS = {"VAR", "STRING", "NUMBER", "IDENTIFIER"}
_TIME_ZONE = re.compile(r"\bAT\s+TIME\s+ZONE\b", re.IGNORECASE)
"""Becomes a function."""
_FRACTION = re.compile(r"^0\.(?=\d+$)")
"""The tokenizer takes .5 for a dot and a number, and it is written as 0.5."""


def check_clauses(tree: "exp.Select") -> None:
    """Raise UserError for a clause, or a part of one, that a view does not have."""
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
            f"A view reads one stream or view by its name, and not {source.sql(dialect='spark')}."
        )
    extra = [part for part, value in source.args.items() if value and part not in {"this", "alias"}]
    alias = source.args.get("alias")
    if extra or (alias and alias.args.get("columns")):
        raise UserError(
            f"FROM {source.sql(dialect='spark')} says more than a name, and a view cannot do that: "
            "read one stream or view."
        )


def check_nothing_dropped(text: str, tree: "exp.Select") -> None:
    """Raise UserError if the parser has left out a name or a value: it does so for some arguments."""
    missing = _words(text) - _words(tree.sql(dialect="spark")) - _defaults(tree)
    if missing:
        word = next(iter(missing))
        raise UserError(
            f"{word!r} is not understood where it stands. Write the expression differently."
        )


def keep_formats(tree: "exp.Select") -> None:
    """Let TO_DATE keep the format 'yyyy-MM-dd': without one, Spark accepts other texts too."""
    from sqlglot import exp

    for call in list(tree.find_all(exp.TsOrDsToDate)):
        if call.args.get("format") and len(_words(call.sql(dialect="spark"))) == len(
            _words(call.this.sql(dialect="spark"))
        ):
            kept = exp.Literal.string("yyyy-MM-dd")
            call.replace(exp.Anonymous(this="TO_DATE", expressions=[call.this.copy(), kept]))


def _defaults(tree: "exp.Select") -> Counter[str]:
    """Values that are written no more because they are the defaults of their functions."""
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
    """Raise UserError if an expression of a row has measures, windows or subqueries in it."""
    from sqlglot import exp

    for part in one.walk():
        if isinstance(part, exp.Query | exp.Subquery):
            raise UserError(
                f"{part.sql(dialect='spark')} is a subquery. Join with tables in Python's `prepare`."
            )
        if isinstance(part, exp.AggFunc | exp.Window | exp.Filter | exp.WithinGroup):
            raise UserError(
                f"{_shown(part)} stands inside an expression, or is no measure of a view. Give each "
                "measure a name of its own, and compute with them in a query over the view."
            )


def check_measure(call: "exp.Expr") -> None:
    """Raise UserError if a measure has an addition that none has."""
    from sqlglot import exp

    if not isinstance(call, exp.Func):
        raise UserError(
            f"{_shown(call)}: a measure has no FILTER, OVER or NULLS. Use CASE WHEN … END in its "
            "argument."
        )
    for part in call.walk():
        inner = part is not call
        if isinstance(part, exp.Distinct) and not isinstance(call, exp.Count):
            raise UserError(f"{_shown(call)}: DISTINCT is for count only.")
        if inner and isinstance(part, exp.Query | exp.Subquery | exp.AggFunc | exp.Window):
            raise UserError(f"{_shown(call)}: a measure is made of the columns of single rows.")


def check_star(one: "exp.Expr") -> None:
    """Raise UserError for a star with EXCEPT and the like, or one of a column."""
    from sqlglot import exp

    star = one.this if isinstance(one, exp.Column) else one
    if one.args.get("table") or any(star.args.values()):
        raise UserError(f"{one.sql(dialect='spark')} says more than *: name the columns.")


def without_qualifiers(tree: "exp.Select") -> None:
    """Take the source's name, or its alias, away from columns: there is only one source."""
    from sqlglot import exp

    source = tree.args.get("from_") or tree.args.get("from")
    for column in tree.find_all(exp.Column):
        if source is not None and column.table == source.this.alias_or_name and not column.db:
            column.set("table", None)


def names_in(one: "exp.Expr") -> set[str]:
    """The columns that an expression reads."""
    from sqlglot import exp

    # Of payload.field, the column is payload; a parser takes it for a table.
    return {(column.parts[0]).name for column in one.find_all(exp.Column)}


def renamed(one: "exp.Expr", names: Mapping[str, str]) -> "exp.Expr":
    """An expression with other columns."""
    from sqlglot import exp

    made = one.copy()
    for column in made.find_all(exp.Column):
        first = column.parts[0]
        if first.name in names:
            first.set("this", names[first.name])
    return made


def in_order(columns: Mapping[str, "exp.Expr"], known: set[str] | None) -> list[str]:
    """The order in which columns can be made one after the other, so that all mean what SQL says.

    A name that the source has stands for the source's column in all of SELECT; another one for what
    SELECT gives that name to.
    """
    after: dict[str, set[str]] = {name: set() for name in columns}
    written = list(columns)
    for name, one in columns.items():
        for other in (names_in(one) & set(columns)) - {name}:
            earlier = written.index(other) < written.index(name)
            if known is None and earlier:
                raise UserError(
                    f"{name} reads {other}, which may be the column that was read or the one that SELECT "
                    "makes: choose another name."
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
            raise UserError(f"{waiting} are read in one another's place: choose other names.")
        order.append(free[0])
    return order


def _words(text: str) -> Counter[str]:
    """Names and values, with how often they stand there; names of functions may be others."""
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
