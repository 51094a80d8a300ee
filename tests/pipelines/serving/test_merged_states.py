"""States kept in memory give the answers that the files give, whatever happens to the files. No Java."""

import threading
import uuid
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.pipelines import Stream, View, count, distinct, first, mean, top_k, window
from strom.pipelines import max as largest
from strom.pipelines.layers.compaction import Compactor
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.partials import partial_statement
from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.views.fold import bind
from strom.pipelines.views.manifests import Manifests, ViewSegment
from strom.pipelines.views.versions import new_version
from tests.pipelines.oracle import SCHEMA, START

clicks = Stream("clicks", schema=SCHEMA, time="at")
MEASURES = {
    "views": count(),
    "mean_ms": mean("ms"),
    "slowest": largest("ms"),
    "first_user": first("user"),
    "visitors": distinct("user"),
    "top": top_k("user", 2),
}
VIEWS = [
    View(reads=clicks, keys=[window("1 minute"), "page"], measures=MEASURES, name="pages"),
    View(reads=clicks, measures=MEASURES, name="all_clicks"),
    View(reads=clicks, name="rows"),
]
TYPES = pa.schema(
    [
        ("user", pa.string()),
        ("page", pa.string()),
        ("ms", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("_offset", pa.int64()),
    ]
)


class Views:
    """One log, and the same records in all views, segment by segment."""

    def __init__(self, folder):
        self.manifests = Manifests(folder)
        self.folds = {one.name: bind(one, clicks.columns, lambda text: "int") for one in VIEWS}
        self.end = 0
        for one in VIEWS:
            identity = self.states(one.name, 0, 0)
            new_version(self.manifests, one, TopicOffsets((0,)), identity, clicks.columns)
            (self.manifests.version_folder(one.name, 1) / "speed").mkdir()

    def states(self, name, start, end):
        rows = [
            {"user": f"u{n % 5}", "page": f"/{n % 3}", "ms": n, "at": START, "_offset": n}
            for n in range(start, end)
        ]
        connection = connect()
        connection.register("given", pa.Table.from_pylist(rows, TYPES))
        made = connection.sql(partial_statement(self.folds[name], "given")).to_arrow_table()
        connection.close()
        return made

    def segment(self, name, start, end, layer):
        file = f"v1/speed/{uuid.uuid4().hex}.parquet"
        pq.write_table(self.states(name, start, end), self.manifests.view_folder(name) / file)
        return ViewSegment(TopicOffsets((start,)), TopicOffsets((end,)), (file,), layer)

    def micro_batch(self, records):
        for name in self.folds:
            segment = self.segment(name, self.end, self.end + records, "speed")
            self._change(name, lambda version, segment=segment: version.appended(segment))
        self.end += records

    def batch(self, share):
        for name in self.folds:
            bounds = self.manifests.existing(name).version(1).boundaries
            cut = bounds[int(share * (len(bounds) - 1))]
            segment = self.segment(name, 0, cut[0], "batch")
            self._change(name, lambda version, segment=segment: version.spliced(segment))

    def compact(self):
        compactor = Compactor(self.manifests)
        with patch("strom.pipelines.layers.compaction.plan.__defaults__", (3,)):
            for fold in self.folds.values():
                while compactor.compact(fold, 1):
                    pass
        compactor.close()

    def _change(self, name, change):
        self.manifests.change(
            name, "clicks", lambda before: before.with_version(change(before.version(1)))
        )


def answers(server):
    return {
        one.name: server.query(f"SELECT * FROM {one.name} ORDER BY ALL").to_pylist()
        for one in VIEWS
    }


STEPS = st.lists(
    st.integers(1, 4).map(lambda records: ("micro_batch", records))
    | st.sampled_from([("compact",), ("batch", 0.5), ("batch", 1.0), ("ask",)]),
    max_size=20,
)


@settings(max_examples=12, deadline=None)
@given(STEPS)
def test_states_in_memory_return_the_rows_of_the_files(tmp_path_factory, steps):
    views = Views(tmp_path_factory.mktemp("views"))
    kept = QueryEngine(views.manifests)
    for step, *arguments in [*steps, ("ask",)]:
        if step == "ask":
            from_files = QueryEngine(views.manifests, in_memory=0)
            assert answers(kept) == answers(from_files)
            from_files.close()
        else:
            getattr(views, step)(*arguments)
    kept.close()


@pytest.fixture
def views(tmp_path):
    return Views(tmp_path)


def test_only_what_is_new_is_read(views):
    views.micro_batch(5)
    server = QueryEngine(views.manifests)
    assert server.query("SELECT sum(views) AS n FROM pages").to_pylist() == [{"n": 5}]
    for segment in views.manifests.existing("pages").version(1).segments:
        for file in segment.files:
            (views.manifests.view_folder("pages") / file).unlink()
    views.micro_batch(2)
    assert server.query("SELECT sum(views) AS n FROM pages").to_pylist() == [{"n": 7}]
    server.close()


def test_a_query_sees_whole_micro_batches_while_they_come(views):
    server = QueryEngine(views.manifests)
    views.micro_batch(10)
    seen, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            sql = "SELECT sum(views) AS n, max(slowest) AS last FROM pages"
            seen.extend(server.query(sql).to_pylist())

    readers = [threading.Thread(target=ask) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(10):
        views.micro_batch(10)
        views.compact()
    stop.set()
    for reader in readers:
        reader.join()
    assert len(seen) > 2
    assert all(one["n"] % 10 == 0 and one["last"] == one["n"] - 1 for one in seen)
    server.close()
