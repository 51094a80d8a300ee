"""A view with a few records, computed by DuckDB, for tests of queries. No Java."""

import urllib.parse
import urllib.request

import pyarrow as pa
import pyarrow.parquet as pq

from strom.pipelines import Stream, View, count, distinct, top_k, window
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.serving.connections import connect
from strom.pipelines.serving.partials import partial_statement
from strom.pipelines.views.fold import bind
from strom.pipelines.views.manifests import Manifests, ViewSegment
from strom.pipelines.views.versions import new_version
from tests.pipelines.oracle import SCHEMA, START

clicks = Stream("clicks", schema=SCHEMA, time="at")
view = View(
    reads=clicks,
    keys=[window("1 minute"), "page"],
    measures={"views": count(), "visitors": distinct("user"), "top": top_k("user", 1)},
    name="page_minutes",
)
ROWS = [
    {"user": f"user-{n % 4}", "page": f"/{n % 2}", "ms": n, "at": START, "_offset": n}
    for n in range(10)
]


def states(rows):
    connection = connect()
    fold = bind(view, clicks.columns, lambda text: "int")
    schema = pa.schema(
        [
            ("user", pa.string()),
            ("page", pa.string()),
            ("ms", pa.int32()),
            ("at", pa.timestamp("us", "UTC")),
            ("_offset", pa.int64()),
        ]
    )
    connection.register("given", pa.Table.from_pylist(rows, schema))
    made = connection.sql(partial_statement(fold, "given")).to_arrow_table()
    connection.close()
    return made


def append(manifests, segment):
    manifests.change(
        "page_minutes",
        "clicks",
        lambda before: before.with_version(before.version(1).appended(segment)),
    )


def served_manifests(folder):
    """A view with two segments."""
    manifests = Manifests(folder / "data" / "views")
    compute(manifests, ROWS)
    return manifests


def compute(manifests, rows):
    """Begin the view, and fold these rows of a log of ten offsets."""
    new_version(manifests, view, TopicOffsets((0,)), states([]), clicks.columns)
    for start, end in ((0, 6), (6, 10)):
        file = f"v1/{start}.parquet"
        pq.write_table(states(rows[start:end]), manifests.view_folder("page_minutes") / file)
        append(manifests, ViewSegment(TopicOffsets((start,)), TopicOffsets((end,)), (file,)))


def get(address, path, **parameters):
    url = f"{address}{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()
