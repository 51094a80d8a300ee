"""Custom measures, defined in SQL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from strom.model.errors import UserError
from strom.pipelines.measures.measure import Fold, Measure, Rows, Sql, State


def measure(
    *,
    partial: Mapping[str, str],
    merge: Mapping[str, str],
    finish: str,
    exactness: str = "as stated by its author",
) -> Measure:
    """A custom measure, in Spark's SQL.

    `partial` names the parts of the state, each an aggregate over rows; `merge` combines each, an
    aggregate over the parts; `finish` computes the value from them:

        measure(
            partial={"a": "sum(x * w)", "b": "sum(w)"},
            merge={"a": "sum(a)", "b": "sum(b)"},
            finish="a / b",
        )

    A merge must not depend on order or grouping, or the batch and speed layers disagree.
    """
    if set(partial) != set(merge):
        raise UserError("A measure's partial and merge must name the same parts.")
    if not partial:
        raise UserError("A measure needs at least one part.")
    own = OwnMeasure(None, dict(partial), dict(merge), finish, exactness)
    own.fold(Rows(lambda column: "string", "at"))  # the SQL is parsed now, not at run time
    return own


@dataclass(frozen=True)
class OwnMeasure(Measure):
    """A measure of three SQL expressions."""

    partial: Mapping[str, str] = field(default_factory=dict)
    merge: Mapping[str, str] = field(default_factory=dict)
    finish: str = ""
    stated: str = ""
    kind: ClassVar[str] = "measure"

    def fold(self, rows: Rows) -> Fold:
        """The expressions, with the parts' names as the state's columns."""
        states = tuple(
            State(
                name,
                Sql(text, _translated(text)),
                _translated(self.merge[name], rename=self.partial),
            )
            for name, text in self.partial.items()
        )
        finish = _translated(self.finish, rename=self.partial)
        return Fold(states, finish)

    def describe(self) -> str:
        """The expression as the user wrote it."""
        return f"measure({self.finish})"


def _translated(text: str, rename: Mapping[str, str] | None = None) -> str:
    """Translate Spark's SQL to DuckDB's; names in `rename` become {placeholders}."""
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        raise UserError(f"{text!r} is not an SQL expression.") from None
    if rename is None:
        return tree.sql(dialect="duckdb", identify=True)
    for column in tree.find_all(exp.Column):
        if column.name not in rename:
            raise UserError(
                f"{text!r} refers to {column.name}, which is not a part of the state: "
                f"{', '.join(rename)}."
            )
        column.this.set("this", f"\x00{column.name}\x01")
    written = tree.sql(dialect="duckdb", identify=True).replace("{", "{{").replace("}", "}}")
    return written.replace('"\x00', "{").replace('\x01"', "}")
