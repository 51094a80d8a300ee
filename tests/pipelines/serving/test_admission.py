"""A query changes nothing and reads views only, whatever it is written like."""

import pytest

from strom.model.errors import UserError
from strom.pipelines.serving import queries
from strom.pipelines.serving.admission import AdmittedQuery, admit
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.queries import QueryEngine
from tests.pipelines.served import served_manifests

TOTAL = "SELECT sum(views) AS n FROM page_minutes"


@pytest.fixture
def manifests(tmp_path):
    return served_manifests(tmp_path)


@pytest.fixture
def server(manifests):
    server = QueryEngine(manifests)
    assert server.query(TOTAL).to_pylist() == [{"n": 10}]
    yield server
    assert server.query(TOTAL).to_pylist() == [{"n": 10}]
    server.close()


def state_table(server):
    """The table in which the view's states are kept."""
    (row,) = server.query(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'strom_states'"
    ).to_pylist()
    return f"strom_states.{row['table_name']}"


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (SELECT 1) UPDATE {} SET views__n = 1000",
        "WITH x AS (UPDATE {} SET views__n = 1000 RETURNING views__n) SELECT * FROM x",
        "WITH x AS (DELETE FROM {} RETURNING *) SELECT count(*) FROM x, page_minutes",
        "WITH x AS (INSERT INTO {0} FROM {0} RETURNING *) SELECT count(*) FROM x",
        "SELECT EXISTS (WITH x AS (DELETE FROM {} RETURNING *) SELECT * FROM x)",
        "SELECT * FROM query('WITH x AS (DELETE FROM {} RETURNING *) SELECT * FROM x')",
        "WITH x AS (SELECT 1) DELETE FROM {}",
        "DELETE FROM {}",
        "DROP TABLE {}",
        "SELECT 1; DELETE FROM {}",
        "SELECT 1; COMMIT; DELETE FROM {}",
        "/* SELECT */ DELETE FROM {} -- SELECT",
        "EXPLAIN ANALYZE DELETE FROM {}",
        "CREATE OR REPLACE VIEW page_minutes AS SELECT 1",
        "PREPARE p AS DELETE FROM {}",
        "BEGIN",
        "COMMIT",
    ],
)
def test_a_query_changes_no_served_number(server, sql):
    with pytest.raises(UserError):
        server.query(sql.format(state_table(server)))


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (COPY (SELECT 1) TO '{}') SELECT * FROM x",
        "WITH x AS MATERIALIZED (COPY (SELECT 1) TO '{}') SELECT 1 WHERE EXISTS (FROM x)",
        "SELECT (WITH x AS (COPY (SELECT 1) TO '{}') SELECT count(*) FROM x)",
        "SELECT * FROM query('WITH x AS (COPY (SELECT 1) TO ''{}'') SELECT * FROM x')",
        "COPY (SELECT 1) TO '{}'",
        "ATTACH '{}' AS y",
        "EXPORT DATABASE '{}'",
    ],
)
def test_a_query_writes_no_file(manifests, server, sql):
    """The views' folder is one that DuckDB may write to: a manifest could be overwritten."""
    file = manifests.view_folder("page_minutes") / "new.parquet"
    with pytest.raises(UserError):
        server.query(sql.format(file))
    assert not file.exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{}/manifest.json')",
        "SELECT * FROM READ_BLOB('{}/manifest.json')",
        "SELECT * FROM read_parquet('{}/v1/0.parquet')",
        "SELECT * FROM parquet_schema('{}/v1/0.parquet')",
        "SELECT * FROM '{}/manifest.json'",
        'SELECT * FROM "{}/manifest".json',
        "DESCRIBE '{}/manifest.json'",
        "SUMMARIZE '{}/manifest.json'",
        "SELECT * FROM glob('{}/*')",
        "SELECT * FROM query_table('{}/manifest.json')",
        "SELECT (SELECT count(*) FROM read_text('{}/manifest.json')) FROM page_minutes",
    ],
)
def test_a_query_reads_no_file_of_a_view(manifests, server, sql):
    with pytest.raises(UserError, match="reads views only"):
        server.query(sql.format(manifests.view_folder("page_minutes")))


@pytest.mark.parametrize(
    "sql",
    [
        "SET threads = 1",
        "PRAGMA threads = 1",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "INSTALL httpfs",
        "LOAD json",
        "CHECKPOINT",
        "SELECT * FROM checkpoint()",
        "SELECT * FROM enable_logging()",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "FROM server",
        "",
        ";",
        "-- nothing",
    ],
)
def test_what_is_no_select_is_refused(server, sql):
    with pytest.raises(UserError):
        server.query(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a;b' AS n FROM page_minutes LIMIT 1",
        "SELECT 1 AS n;",
        "SELECT 1 AS n ; ; -- done",
        "-- how many\nSELECT 1 AS n",
        "/* how; many */ SELECT 1 AS n",
        "\n  (SELECT 1 AS n)",
        "WITH x AS (SELECT 1 AS n) SELECT * FROM x",
        "WITH RECURSIVE x AS (SELECT 1 AS n UNION SELECT n + 1 FROM x WHERE n < 1) FROM x",
        "SELECT 1 AS n UNION ALL SELECT 2 LIMIT 1",
        "FROM page_minutes SELECT 1 AS n LIMIT 1",
        "VALUES (1)",
        "TABLE page_minutes LIMIT 1",
        "FROM memory.main.page_minutes LIMIT 1",
        "FROM information_schema.tables WHERE table_name = 'page_minutes'",
        "DESCRIBE SELECT 1",
        "SUMMARIZE SELECT 1",
        "SELECT * FROM range(1)",
        "SELECT unnest([1])",
        "FROM (SELECT page, views FROM page_minutes) PIVOT (sum(views) FOR page IN ('/1'))",
        "SELECT 'UPDATE; DROP' AS n",
    ],
)
def test_one_select_of_any_form_is_executed(server, sql):
    assert server.query(sql).num_rows == 1


def test_the_view_is_described(server):
    described = server.query("DESCRIBE page_minutes").to_pylist()
    assert "visitors" in [row["column_name"] for row in described]


def test_values_are_bound(server):
    sql = "SELECT page FROM page_minutes WHERE page = CAST(? AS VARCHAR)"
    assert server.query(sql, ["/1"]).to_pylist() == [{"page": "/1"}]


@pytest.mark.parametrize("depth", [400, 5000])
def test_a_statement_nested_deeply_is_an_error_of_its_client(server, depth):
    with pytest.raises(UserError):
        server.query("SELECT " + "1+(" * depth + "1" + ")" * depth)


def _admit_any(cursor, sql):
    return AdmittedQuery(cursor.extract_statements(sql)[0], frozenset(), reads_catalog=True)


def test_a_query_that_writes_is_refused_by_its_transaction_as_well(server, monkeypatch):
    """In case a later version of DuckDB writes in a way that the check of the tree does not know."""
    monkeypatch.setattr(queries, "admit", _admit_any)
    with pytest.raises(UserError, match="read-only"):
        server.query(f"WITH x AS (DELETE FROM {state_table(server)} RETURNING *) FROM x")


def test_a_table_function_that_never_ends_is_refused(server):
    """DuckDB's summary() over a table returns rows without end; SUMMARIZE does what it is for."""
    with pytest.raises(UserError, match="the table function summary is not allowed"):
        server.query("SELECT * FROM summary(page_minutes)")
    assert server.query("SUMMARIZE page_minutes").num_rows > 0


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 'a; FROM clicks' AS x FROM Page_Minutes -- ; sessions", {"page_minutes"}),
        ('SELECT ";" FROM (SELECT 1 AS ";") JOIN "pages" USING (x)', {"pages"}),
        ("WITH a AS (FROM b) SELECT * FROM a, main.c WHERE x IN (FROM d)", {"a", "b", "c", "d"}),
        ("FROM pages UNION ALL BY NAME FROM users", {"pages", "users"}),
    ],
)
def test_the_tables_of_a_query_come_from_its_syntax(sql, tables):
    query = admit(connect(), sql)
    assert query.tables == tables
    assert not query.reads_catalog


def test_a_query_of_the_catalog_lists_views_that_were_not_queried_before(manifests):
    engine = QueryEngine(manifests)
    listed = "SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW'"
    assert {"table_name": "page_minutes"} in engine.query(listed).to_pylist()
    engine.close()
    engine = QueryEngine(manifests)
    columns = "SELECT name FROM pragma_table_info('page_minutes')"
    assert {"name": "visitors"} in engine.query(columns).to_pylist()
    engine.close()
