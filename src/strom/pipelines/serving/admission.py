"""Validates queries: exactly one SELECT statement, which reads views and has no side effects.

DuckDB's own parser decides, not a regular expression. The statement type alone does not suffice: since
DuckDB 2.0, a SELECT may contain a CTE that updates a table or copies to a file. A read-only transaction
rejects the former and executes the latter, so the syntax tree is checked too.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from strom.model.errors import UserError

if TYPE_CHECKING:
    import duckdb

_READING = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLE_FUNCTIONS = frozenset(
    {
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_schemas",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "generate_series",
        "histogram",
        "histogram_values",
        "icu_calendar_names",
        "json_each",
        "json_tree",
        "pg_timezone_names",
        "pragma_table_info",
        "pragma_version",
        "range",
        "repeat",
        "repeat_row",
        "unnest",
    }
)
"""They generate rows from values or describe the catalog. Any other may read files or execute SQL."""
_NAMESPACES = frozenset(
    {"memory", "system", "temp", "main", "strom_states", "information_schema", "pg_catalog"}
)
_PATH_MARKS = frozenset("./\\")
"""DuckDB may take a table name with one of these for a path."""
_CATALOG_FUNCTIONS = ("duckdb_", "pragma_")
_CATALOG_SCHEMAS = frozenset({"information_schema", "pg_catalog"})


class AdmittedQuery(NamedTuple):
    """A validated statement, and the tables that it references."""

    statement: "duckdb.Statement"
    tables: frozenset[str]
    """Case-folded, as DuckDB compares names; includes the names of common table expressions."""
    reads_catalog: bool
    """Whether it lists tables or columns, which needs every view to be defined."""


def admit(connection: "duckdb.DuckDBPyConnection", sql: str) -> AdmittedQuery:
    """Parse and validate a query; UserError if it is not exactly one SELECT that only reads views."""
    from duckdb import StatementType

    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise UserError(f"A query must be one SELECT statement, not {len(statements)} statements.")
    (statement,) = statements
    if statement.type != StatementType.SELECT:
        hint = " List the values of PIVOT: FOR … IN (…)." if _is_pivot(statement) else ""
        raise UserError(f"A query must be one SELECT statement, not {statement.type.name}.{hint}")
    tables: set[str] = set()
    reads_catalog = False
    for node in _nodes(_tree(connection, sql)):
        if problem := _problem_with(node):
            raise UserError(problem)
        if node.get("type") == "BASE_TABLE":
            tables.add(str(node["table_name"]).casefold())
        reads_catalog = reads_catalog or _reads_catalog(node)
    return AdmittedQuery(statement, frozenset(tables), reads_catalog)


def _is_pivot(statement: "duckdb.Statement") -> bool:
    # DuckDB expands a PIVOT without a list of values to several statements.
    return statement.type.name == "MULTI"


def _tree(connection: "duckdb.DuckDBPyConnection", sql: str) -> Any:
    found = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    try:
        tree = json.loads(found[0]) if found else {"error": True}
    except RecursionError:
        raise UserError("The statement is nested too deeply.") from None
    if tree["error"]:
        reason = tree.get("error_message", "DuckDB cannot serialize it")
        raise UserError(f"The statement cannot be validated and was not executed: {reason}")
    return tree


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    # A stack, not recursion: the depth of the tree is up to the client.
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _problem_with(node: dict[str, Any]) -> str | None:
    kind = node.get("type")
    if "cte_map" in node and kind not in _READING:
        what = str(kind).removesuffix("_NODE").removesuffix("_QUERY")
        return f"A query must not change data: {what} is not allowed."
    if kind == "TABLE_FUNCTION":
        name = str(node["function"]["function_name"])
        if name.casefold() not in _TABLE_FUNCTIONS:
            return f"A query reads views only: the table function {name} is not allowed."
    if kind == "BASE_TABLE":
        *namespaces, name = _path(node)
        if _PATH_MARKS & set(name) or not _NAMESPACES.issuperset(map(str.casefold, namespaces)):
            return f"A query reads views only, and {'.'.join([*namespaces, name])} is not a view."
    return None


def _reads_catalog(node: dict[str, Any]) -> bool:
    if node.get("type") == "TABLE_FUNCTION":
        return str(node["function"]["function_name"]).casefold().startswith(_CATALOG_FUNCTIONS)
    return node.get("type") == "BASE_TABLE" and node["schema_name"].casefold() in _CATALOG_SCHEMAS


def _path(table: dict[str, Any]) -> list[str]:
    parts = [table["catalog_name"], table["schema_name"], table["table_name"]]
    return [part for part in parts if part]
