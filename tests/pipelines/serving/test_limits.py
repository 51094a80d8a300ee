"""Limits of queries: one that exceeds a limit ends with the reason, and the next one is served."""

import contextlib
import io
import json
import time
import urllib.error

import pyarrow as pa
import pytest
from click.testing import CliRunner

from strom.cli.query import query as query_command
from strom.model.errors import UserError
from strom.pipelines.serving import http
from strom.pipelines.serving.cancellation import Cancellation
from strom.pipelines.serving.formats import SLICE_BYTES, encode_batches, encode_table
from strom.pipelines.serving.http import ServingServer, listen
from strom.pipelines.serving.limits import BATCH_ROWS, MIB, QueryLimits, ResultFiles, ResultsFull
from strom.pipelines.serving.queries import QueryEngine, _raising_duckdb_errors
from tests.pipelines.served import get, served_manifests
from tests.pipelines.serving.test_cancellation import ENDLESS, requested, until

SORTED = "SELECT md5(i::VARCHAR) AS m FROM range(1000000) AS r(i) ORDER BY m LIMIT 999999"


class Served:
    def __init__(self, folder, **limits):
        self.manifests = served_manifests(folder)
        self.engine = QueryEngine(self.manifests, limits=QueryLimits(**limits))
        self.http = ServingServer(self.manifests, self.engine, listen("127.0.0.1", 0))
        self.address = self.http.start()

    def refusal(self, sql):
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(self.address, "/query", sql=sql)
        with caught.value as response:
            assert response.code == 400
            error = json.loads(response.read())["error"]
        assert json.loads(get(self.address, "/query", sql="SELECT 1 AS n")) == [{"n": 1}]
        until(lambda: self.engine.results._held == 0)
        return error


@pytest.fixture
def serve(tmp_path):
    running = []

    def make(**limits):
        running.append(Served(tmp_path, **limits))
        return running[-1]

    yield make
    for one in running:
        one.http.stop()
        one.engine.close()


def test_rows_are_limited(serve):
    served = serve(rows=20_000)
    assert "more than 20000 rows" in served.refusal("SELECT * FROM range(20001)")
    assert (
        len(json.loads(get(served.address, "/query", sql="SELECT * FROM range(20000)"))) == 20_000
    )


def test_bytes_are_limited(serve):
    served = serve(result_bytes=2 * MIB)
    assert "serving.max_result_mb" in served.refusal("SELECT repeat('x', 500) FROM range(10000)")


def test_the_limit_of_bytes_stops_the_encoding_of_a_batch(tmp_path):
    files = ResultFiles(tmp_path, QueryLimits(result_bytes=4 * MIB))
    batch = pa.record_batch({"s": ["x" * 100_000] * 500 + ["x" * 5_000_000]})
    for form in ("json", "csv", "arrow"):
        sizes: list[int] = []

        def counted(form=form, sizes=sizes):
            for piece in encode_batches(batch.schema, [batch], form):
                sizes.append(len(piece))
                yield piece

        with pytest.raises(UserError, match=r"serving\.max_result_mb"):
            files.write(counted())
        assert max(sizes) < 2 * SLICE_BYTES
        assert sum(sizes) < 4 * MIB + 2 * SLICE_BYTES


def test_a_query_fetches_few_rows_at_a_time(tmp_path):
    engine = QueryEngine(served_manifests(tmp_path))
    with contextlib.closing(engine):
        most = engine.query_within_limits(
            "SELECT * FROM range(50000)", lambda _, batches: max(one.num_rows for one in batches)
        )
    assert most <= BATCH_ROWS < 2048


def test_a_query_that_others_leave_no_turn_is_refused_for_now(serve, monkeypatch):
    monkeypatch.setattr(http, "_QUERIES", 1)
    monkeypatch.setattr(http, "_WAIT_S", 0.05)
    served = serve()
    client = requested(served.address, "/query", ENDLESS)
    until(lambda: served.engine.running == 1)
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(served.address, "/query", sql="SELECT 1 AS n")
    with caught.value as response:
        assert (response.code, response.headers["Retry-After"]) == (503, "1")
    client.close()
    until(lambda: served.engine.running == 0)
    assert json.loads(get(served.address, "/query", sql="SELECT 1 AS n")) == [{"n": 1}]


def test_time_is_limited(serve):
    served = serve(seconds=0.2)
    assert "longer than 0.2 seconds" in served.refusal(ENDLESS)
    assert served.engine.running == 0


def test_memory_and_its_spill_are_limited(serve):
    served = serve(memory_bytes=20 * MIB, spill_bytes=2 * MIB)
    error = served.refusal("SELECT len(list(md5(i::VARCHAR))) FROM range(2000000) AS r(i)")
    assert "20 MiB of memory and 2 MiB of disk" in error
    assert "serving.max_spill_mb" in error


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("error('boom')", "boom"),
        ("CAST('x' || i AS INT)", "Could not convert string 'x150000' to INT32"),
        ("9223372036854775807::BIGINT + i", "Overflow in addition"),
    ],
)
def test_an_error_after_the_first_rows_is_reported(serve, value, reason):
    sql = f"SELECT CASE WHEN i = 150000 THEN {value} END FROM range(200000) AS r(i)"
    assert reason in serve(rows=10**6).refusal(sql)


def test_time_is_limited_after_the_first_rows(serve):
    sql = f"SELECT i FROM range({10**12}) AS r(i) WHERE i < 50000 OR i % 100000007 = 0"
    assert "longer than 0.5 seconds" in serve(seconds=0.5).refusal(sql)


class FailingReader:
    """Stands in for Arrow's reader, which reports every error of DuckDB as an OSError."""

    schema = pa.schema([("n", pa.int64())])

    def __init__(self, message):
        self.message = message

    def __iter__(self):
        yield pa.record_batch([[1]], schema=self.schema)
        if self.message:
            raise OSError(self.message)


def test_a_file_removed_after_the_first_rows_starts_the_query_again(tmp_path):
    engine = QueryEngine(served_manifests(tmp_path))
    readers = [FailingReader("IO Error: No such file"), FailingReader(None)]
    took: list[list[dict[str, int]]] = []

    def execute(found):
        took.append([])
        for batch in _raising_duckdb_errors(readers.pop(0)):
            took[-1] += batch.to_pylist()
        return took[-1]

    with contextlib.closing(engine):
        assert engine._execute("SELECT 1", (), Cancellation(), execute) == [{"n": 1}]
    assert len(took) == 2


def test_out_of_memory_after_the_first_rows_names_the_limit(tmp_path):
    engine = QueryEngine(served_manifests(tmp_path))
    reader = FailingReader("Out of Memory Error: failed to allocate")
    with contextlib.closing(engine), pytest.raises(UserError, match=r"serving\.memory_mb"):
        engine._execute(
            "SELECT 1", (), Cancellation(), lambda _: list(_raising_duckdb_errors(reader))
        )


def test_a_full_disk_below_a_result_is_no_mistake_of_the_query(tmp_path):
    engine = QueryEngine(served_manifests(tmp_path))

    def write(schema, batches):
        next(batches)
        raise OSError(28, "No space left on device")

    with contextlib.closing(engine), pytest.raises(OSError, match="No space left"):
        engine.query_within_limits("SELECT 1", write)


def test_what_exceeds_the_memory_goes_to_the_data_folder(tmp_path):
    limits = QueryLimits(memory_bytes=40 * MIB)
    engine = QueryEngine(served_manifests(tmp_path), limits=limits)
    spill = engine._manifests.folder.parent / "spill"
    seen: set[str] = set()

    def count(schema, batches):
        rows = 0
        for batch in batches:
            seen.update(path.name for path in spill.rglob("*"))
            rows += batch.num_rows
        return rows

    assert engine.query_within_limits(SORTED, count) == 999_999
    assert any(name.startswith("duckdb_temp") for name in seen)
    engine.close()
    assert not spill.exists() or list(spill.iterdir()) == []


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
def test_a_large_result_arrives_whole(serve, form):
    served = serve()
    sql = "SELECT i, repeat('x', 30) AS s FROM range(50000) AS r(i)"
    body = get(served.address, "/query", sql=sql, format=form)
    expected = served.engine.query(sql)
    if form == "arrow":
        found = pa.ipc.open_stream(io.BytesIO(body)).read_all()
        assert found.sort_by("i").equals(expected.sort_by("i").combine_chunks())
    else:
        assert len(body) == len(encode_table(expected, form)) > MIB
    until(lambda: served.engine.results._held == 0)


def test_a_result_is_removed_when_its_client_has_gone(serve):
    served = serve()
    client = requested(served.address, "/query", "SELECT repeat('x', 1000) FROM range(60000)")
    until(lambda: served.engine.results._held > 50 * MIB)
    client.close()
    until(lambda: served.engine.results._held == 0)


def test_all_results_together_are_limited(tmp_path):
    files = ResultFiles(tmp_path, QueryLimits(result_bytes=100))
    results = [files.write([b"x" * 60, b"x" * 40]) for _ in range(4)]
    with pytest.raises(ResultsFull, match="Retry later"):
        files.write([b"x"])
    with pytest.raises(UserError, match="exceeds 100 bytes"):
        files.write([b"x" * 101])
    results.pop().close()
    results.append(files.write([b"y" * 100]))
    assert b"".join(results[-1].pieces()) == b"y" * 100
    for one in results:
        one.close()


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize(
    ("setting", "sql", "message"),
    [
        ("max_rows = 10", "SELECT * FROM range(11)", "more than 10 rows"),
        ("timeout = '100 milliseconds'", ENDLESS, "longer than 0.1 seconds"),
    ],
)
def test_the_command_prints_the_limit_that_ended_a_query(tmp_path, form, setting, sql, message):
    manifests = served_manifests(tmp_path)
    data = manifests.folder.parent
    (tmp_path / "strom.toml").write_text(f'data = "{data}"\n[serving]\n{setting}\n')
    ran = CliRunner().invoke(
        query_command, [sql, "--project", str(tmp_path), "--format", form], standalone_mode=False
    )
    assert isinstance(ran.exception, UserError)
    assert message in str(ran.exception)
    assert ran.output == ""


def test_a_query_within_the_time_is_not_cancelled_later(tmp_path):
    engine = QueryEngine(served_manifests(tmp_path), limits=QueryLimits(seconds=30.0))
    took = engine.query_within_limits("SELECT 1", lambda schema, batches: time.monotonic())
    assert took
    assert engine.running == 0
    engine.close()
