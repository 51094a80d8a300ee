"""Which statements a query may be: exactly one, which reads views and changes nothing.

DuckDB's own parser decides, never a look at the text. Its statement type alone does not suffice: since
DuckDB 2.0 a SELECT may hold a CTE that updates a table, or one that copies into a file. A read-only
transaction refuses the former and executes the latter, so the parsed tree is inspected too.
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
"""Those that make rows of values, or describe the catalog. Any other may read files or execute SQL."""
_NAMESPACES = frozenset(
    {"memory", "system", "temp", "main", "strom_states", "information_schema", "pg_catalog"}
)
_OF_FILES = frozenset("./\\")
"""A table whose name has one of these would be taken for a file's."""
_CATALOG_FUNCTIONS = ("duckdb_", "pragma_")
_CATALOG_SCHEMAS = frozenset({"information_schema", "pg_catalog"})


class AdmittedQuery(NamedTuple):
    """A statement that may be executed, and the tables that it names."""

    statement: "duckdb.Statement"
    tables: frozenset[str]
    """Case-folded, as DuckDB compares names; those of common table expressions are among them."""
    reads_catalog: bool
    """Whether it lists tables or columns, and so needs all views to be there."""


def admit(connection: "duckdb.DuckDBPyConnection", sql: str) -> AdmittedQuery:
    """The one statement of a query; UserError if there is not exactly one, or it may not be executed."""
    from duckdb import StatementType

    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise UserError(f"A query is one SELECT statement, not {len(statements)} statements.")
    (statement,) = statements
    if statement.type != StatementType.SELECT:
        hint = " PIVOT needs its values listed: FOR … IN (…)." if _is_pivot(statement) else ""
        raise UserError(f"A query is one SELECT statement, not {statement.type.name}.{hint}")
    tables: set[str] = set()
    reads_catalog = False
    for node in _nodes(_tree(connection, sql)):
        if problem := _problem_with(node):
            raise UserError(problem)
        if node.get("type") == "BASE_TABLE":
            tables.add(str(node["table_name"]).casefold())
        reads_catalog = reads_catalog or _is_of_catalog(node)
    return AdmittedQuery(statement, frozenset(tables), reads_catalog)


def _is_pivot(statement: "duckdb.Statement") -> bool:
    # A PIVOT over values that are still to be found is several statements to DuckDB.
    return statement.type.name == "MULTI"


def _tree(connection: "duckdb.DuckDBPyConnection", sql: str) -> Any:
    found = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    try:
        tree = json.loads(found[0]) if found else {"error": True}
    except RecursionError:
        raise UserError("The statement is nested too deeply.") from None
    if tree["error"]:
        reason = tree.get("error_message", "DuckDB cannot describe it")
        raise UserError(f"The statement cannot be checked, so it was not executed: {reason}")
    return tree


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of the tree."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _problem_with(node: dict[str, Any]) -> str | None:
    kind = node.get("type")
    if "cte_map" in node and kind not in _READING:
        what = str(kind).removesuffix("_NODE").removesuffix("_QUERY")
        return f"A query changes nothing: {what} is not possible in it."
    if kind == "TABLE_FUNCTION":
        name = str(node["function"]["function_name"])
        if name.casefold() not in _TABLE_FUNCTIONS:
            return f"A query reads views only: the table function {name} is not possible in it."
    if kind == "BASE_TABLE":
        *namespaces, name = _path(node)
        if _OF_FILES & set(name) or not _NAMESPACES.issuperset(map(str.casefold, namespaces)):
            return f"A query reads views only, and {'.'.join([*namespaces, name])} is not a view."
    return None


def _is_of_catalog(node: dict[str, Any]) -> bool:
    if node.get("type") == "TABLE_FUNCTION":
        return str(node["function"]["function_name"]).casefold().startswith(_CATALOG_FUNCTIONS)
    return node.get("type") == "BASE_TABLE" and node["schema_name"].casefold() in _CATALOG_SCHEMAS


def _path(table: dict[str, Any]) -> list[str]:
    parts = [table["catalog_name"], table["schema_name"], table["table_name"]]
    return [part for part in parts if part]
