"""LakeSink: rows and positions move together, in folders and on S3, as Parquet and as Delta."""

import datetime as dt
import errno
import json
import os
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.connect.api import (
    ConnectError,
    InvalidSettings,
    PoisonRecord,
    RetriableError,
    SinkRecord,
    TopicPartition,
)
from strom.connect.api import schema as shapes
from strom.connect.connectors.lake.delta import storage_options
from strom.connect.connectors.lake.files import LocalFileStore, S3FileStore
from strom.connect.connectors.lake.settings import LakeSettings
from strom.connect.connectors.lake.sink import LakeSink
from strom.connect.connectors.lake.tables import FencedError
from tests.connect.connectors.lake.tasks import FORMATS, NOON, P0, P1, a_task, records, rows

HOUR = 3_600_000


def stored(path: Path, partition: TopicPartition, kind: str = "parquet") -> int | None:
    """How far the table of the partition's topic is."""
    return a_task(path, format=kind)._position((partition.topic, partition))


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_are_there_after_a_flush_and_positions_with_them(tmp_path, kind):
    task = a_task(tmp_path, format=kind)
    assert task.open([P0, P1]) == {}
    task.put(records(P0, 0, [{"n": 1}, {"n": 2}]) + records(P1, 7, [{"n": 3}]))
    task.flush()
    assert sorted(row["n"] for row in rows(tmp_path, kind=kind)) == [1, 2, 3]
    assert (stored(tmp_path, P0, kind), stored(tmp_path, P1, kind)) == (2, 8)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_was_not_flushed_is_not_there(tmp_path, kind):
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    task.put(records(P0, 0, [{"n": 1}]))
    assert stored(tmp_path, P0, kind) is None


@pytest.mark.parametrize("kind", FORMATS)
def test_records_that_are_stored_already_are_not_stored_again(tmp_path, kind):
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    task.put(records(P0, 0, [{"n": 0}, {"n": 1}]))
    task.flush()
    again = a_task(tmp_path, format=kind)
    again.open([P0])
    again.put(records(P0, 0, [{"n": 0}, {"n": 1}, {"n": 2}]))
    again.flush()
    assert sorted(row["n"] for row in rows(tmp_path, kind=kind)) == [0, 1, 2]


@pytest.mark.parametrize("kind", FORMATS)
def test_of_two_owners_of_a_partition_one_is_refused(tmp_path, kind):
    begun = a_task(tmp_path, format=kind)
    begun.open([P0])
    begun.put(records(P0, 0, [{"n": 0}]))
    begun.flush()
    old, new = a_task(tmp_path, format=kind), a_task(tmp_path, format=kind)
    for task in (old, new):
        task.open([P0])
        task.put(records(P0, 1, [{"n": 1}]))
    new.flush()
    with pytest.raises(FencedError, match="Another task has stored clicks-0"):
        old.flush()
    assert sorted(row["n"] for row in rows(tmp_path, kind=kind)) == [0, 1]


def test_tasks_with_different_partitions_commit_to_one_delta_table_at_once(tmp_path):
    a_task(tmp_path, format="delta").open([P0])
    tasks = []
    for number in range(4):
        task = a_task(tmp_path, format="delta")
        partition = TopicPartition("clicks", number)
        task.open([partition])
        task.put(records(partition, 0, [{"n": number}]))
        tasks.append(task)
    tasks[0].flush()  # makes the table
    threads = [threading.Thread(target=task.flush) for task in tasks[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(row["n"] for row in rows(tmp_path, kind="delta")) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", FORMATS)
def test_topics_that_a_transform_gives_one_name_keep_their_own_positions(tmp_path, kind):
    def renamed(origin: str, offset: int, number: int, name: str = "all") -> SinkRecord:
        return SinkRecord(name, 0, offset, {"n": number}, original_topic=origin)

    for _ in range(2):  # the second time, everything is there already
        task = a_task(tmp_path, format=kind)
        task.open([TopicPartition("east", 0), TopicPartition("west", 0)])
        task.put([renamed("east", 100, 1), renamed("west", 5, 2), renamed("east", 101, 3, "some")])
        task.flush()
    assert sorted(row["n"] for row in rows(tmp_path, "all", kind)) == [1, 2]
    assert [row["n"] for row in rows(tmp_path, "some", kind)] == [3]


def test_files_of_an_unfinished_commit_are_removed_when_the_partition_is_opened(tmp_path):
    task = a_task(tmp_path)
    task.open([P0])
    task.put(records(P0, 0, [{"n": 0}]))
    task.flush()
    # As a crash between the files and their commit leaves it:
    chain = tmp_path / "clicks/_strom/lake+clicks+0"
    left = tmp_path / "clicks/lake+0+left.parquet"
    left.write_bytes(next((tmp_path / "clicks").glob("lake+clicks+0*.parquet")).read_bytes())
    (chain / f"{1:020d}.intent").write_text(json.dumps({"next": 2, "files": [left.name]}))
    assert stored(tmp_path, P0) == 1
    assert len(rows(tmp_path)) == 1
    assert list(chain.glob("*.intent")) == []


def test_a_write_that_fails_half_way_leaves_nothing_behind_for_the_next_attempt(
    tmp_path, monkeypatch
):
    """The disk is full at the second of two files; the same flush is tried again."""
    task = a_task(tmp_path, time_partition="hour")
    task.open([P0])
    task.put(records(P0, 0, [{"n": 0}], NOON) + records(P0, 1, [{"n": 1}], NOON + HOUR))
    sync, written = os.fsync, []

    def full(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if name.endswith(".parquet") or ".parquet." in name:
            written.append(name)
            if len(written) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RetriableError, match="No space left on device"):
        task.flush()
    task.flush()
    assert sorted(row["n"] for row in rows(tmp_path)) == [0, 1]
    assert [path for path in tmp_path.rglob(".*") if path.is_file()] == []


def test_a_commit_whose_answer_is_lost_counts_once_and_keeps_its_files(tmp_path, monkeypatch):
    task = a_task(tmp_path, format="delta")
    task.open([P0])
    task.put(records(P0, 0, [{"n": 0}]))
    commit = DeltaTable.create_write_transaction

    def commit_and_lose_the_answer(*given: Any, **more: Any) -> None:
        commit(*given, **more)
        raise OSError("timed out")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", commit_and_lose_the_answer)
    with pytest.raises(RetriableError):
        task.flush()
    monkeypatch.undo()
    again = a_task(tmp_path, format="delta")
    again.open([P0])
    again.put(records(P0, 0, [{"n": 0}, {"n": 1}]))
    again.flush()
    assert sorted(row["n"] for row in rows(tmp_path, kind="delta")) == [0, 1]


@pytest.mark.parametrize("kind", FORMATS)
def test_tables_are_split_by_time(tmp_path, kind):
    task = a_task(tmp_path, format=kind, time_partition="hour")
    task.open([P0])
    task.put(records(P0, 0, [{"n": 0}], NOON) + records(P0, 1, [{"n": 1}], NOON + HOUR))
    task.flush()
    folders = {str(file.parent.relative_to(tmp_path)) for file in tmp_path.rglob("*.parquet")}
    day = "clicks/year=2026/month=11/day=15"
    assert folders == {f"{day}/hour=12", f"{day}/hour=13"}
    assert sorted((row["n"], int(row["hour"])) for row in rows(tmp_path, kind=kind)) == [
        (0, 12),
        (1, 13),
    ]


def test_a_field_can_say_the_time(tmp_path):
    task = a_task(tmp_path, time_partition="day", timestamp_field="at")
    task.open([P0])
    task.put(records(P0, 0, [{"at": "2024-02-29T23:59:59Z"}, {"at": "2024-03-01T00:00:00Z"}]))
    task.flush()
    assert sorted((row["month"], row["day"]) for row in rows(tmp_path)) == [(2, 29), (3, 1)]


@pytest.mark.parametrize("kind", FORMATS)
def test_new_fields_become_new_columns(tmp_path, kind):
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    task.put(records(P0, 0, [{"a": 1}]))
    task.flush()
    task.put(records(P0, 1, [{"a": 2, "b": "x", "c": None}]))
    task.flush()
    if kind == "delta":
        assert sorted(DeltaTable(tmp_path / "clicks").to_pyarrow_table().to_pylist(), key=str) == [
            {"a": 1, "b": None},
            {"a": 2, "b": "x"},
        ]
    else:
        files = sorted((tmp_path / "clicks").glob("*.parquet"))
        assert [ds.dataset(file).schema.names for file in files] == [["a"], ["a", "b"]]


def test_a_changed_type_is_refused_with_the_way_out(tmp_path):
    task = a_task(tmp_path, format="delta")
    task.open([P0])
    task.put(records(P0, 0, [{"a": 1}]))
    task.flush()
    with pytest.raises(PoisonRecord, match=r"Field a: the value 'many' .* int64 .* \(Cast\)"):
        task.put(records(P0, 1, [{"a": "many"}]))


def test_a_poison_record_is_named_and_nothing_of_the_call_is_taken(tmp_path):
    task = a_task(tmp_path)
    task.open([P0])
    with pytest.raises(PoisonRecord) as caught:
        task.put(records(P0, 0, [{"n": 1}, {"n": 2}, {"n": "three"}, {"n": 4}]))
    assert caught.value.index == 2
    task.put(records(P0, 0, [{"n": 1}, {"n": 2}]) + records(P0, 3, [{"n": 4}]))
    task.flush()
    assert sorted(row["n"] for row in rows(tmp_path)) == [1, 2, 4]
    assert stored(tmp_path, P0) == 4


def test_records_without_a_value_move_the_position_only(tmp_path):
    task = a_task(tmp_path)
    task.open([P0])
    task.put(records(P0, 0, [{"n": 1}, None]))
    task.flush()
    assert len(rows(tmp_path)) == 1
    assert stored(tmp_path, P0) == 2
    strict = a_task(tmp_path, behavior_on_null_values="fail")
    strict.open([P0])
    with pytest.raises(PoisonRecord, match=r"behavior\.on\.null\.values") as caught:
        strict.put(records(P0, 2, [{"n": 1}, None]))
    assert caught.value.index == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_every_type_of_a_schema_has_a_column(tmp_path, kind):
    shape = shapes.struct(
        {
            "small": shapes.Schema(shapes.Type.INT8),
            "big": shapes.INT64,
            "real": shapes.FLOAT64,
            "yes": shapes.BOOLEAN,
            "text": shapes.OPTIONAL_STRING,
            "raw": shapes.BYTES,
            "price": shapes.decimal(2),
            "day": shapes.DATE,
            "clock": shapes.TIME,
            "at": shapes.TIMESTAMP,
            "tags": shapes.array(shapes.STRING),
            "counts": shapes.mapping(shapes.STRING, shapes.INT32),
            "inner": shapes.struct({"x": shapes.INT32}),
        }
    )
    at = dt.datetime(2026, 11, 15, 12, 30, tzinfo=dt.UTC)
    value = {
        "small": 1,
        "big": 2**60,
        "real": 0.5,
        "yes": True,
        "text": None,
        "raw": b"\x00\xff",
        "price": Decimal("12.50"),
        "day": at.date(),
        "clock": dt.time(1, 2, 3),
        "at": at,
        "tags": ["a", "b"],
        "counts": {"k": 7},
        "inner": {"x": 3},
    }
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    task.put([SinkRecord("clicks", 0, 0, value, shape)])
    task.flush()
    (row,) = rows(tmp_path, kind=kind)
    milliseconds = (1 * 3600 + 2 * 60 + 3) * 1000
    assert row == value | {"clock": milliseconds, "counts": [("k", 7)]}


def test_plain_values_and_parts_of_the_record_become_columns(tmp_path):
    task = a_task(tmp_path, record_columns="topic,partition,offset,timestamp,key")
    task.open([P0])
    task.put([SinkRecord("clicks", 0, 3, "hello", shapes.STRING, "k", timestamp=NOON)])
    task.flush()
    at = dt.datetime.fromtimestamp(NOON / 1000, dt.UTC)
    assert rows(tmp_path) == [
        {
            "value": "hello",
            "_topic": "clicks",
            "_partition": 0,
            "_offset": 3,
            "_timestamp": at,
            "_key": "k",
        }
    ]


def test_memory_is_bounded_by_the_flush_size(tmp_path):
    task = a_task(tmp_path, flush_size="10")
    task.open([P0])
    for first in range(0, 40, 10):
        task.put(records(P0, first, [{"n": first + index} for index in range(10)]))
    assert len(rows(tmp_path)) == 30
    task.flush()
    assert sorted(row["n"] for row in rows(tmp_path)) == list(range(40))


@pytest.mark.parametrize(
    ("texts", "field_name", "message"),
    [
        ({}, "path", "Missing required"),
        ({"path": "x", "fromat": "delta"}, "fromat", "Did you mean format"),
        ({"path": "x", "format": "iceberg"}, "format", "must be one of parquet, delta"),
        ({"path": "x", "timestamp.field": "at"}, "timestamp.field", "time.partition"),
        ({"path": "x", "s3.endpoint": "http://h"}, "s3.endpoint", "s3://"),
        (
            {"path": "hdfs://namenode:8020/lake"},
            "path",
            "hdfs: of hdfs://namenode:8020/lake is not",
        ),
        ({"path": "hdfs:/lake"}, "path", "Supported are the path of a local folder"),
        ({"path": " gs://bucket/lake"}, "path", "gs: "),
        ({"path": "abfss://c@a.dfs.core.windows.net/"}, "path", "s3://BUCKET/PREFIX"),
        ({"path": "s3a://bucket/lake"}, "path", "s3://BUCKET/PREFIX"),
        ({"path": "S3://bucket/lake"}, "path", "s3://BUCKET/PREFIX"),
        ({"path": "file:///lake"}, "path", "without a scheme"),
        ({"path": "s3://b", "s3.access.key.id": "k"}, "s3.access.key.id", "both"),
    ],
)
def test_wrong_settings_are_refused_by_name(texts, field_name, message):
    with pytest.raises(InvalidSettings) as caught:
        LakeSettings.read(texts)
    assert message in caught.value.problems[field_name][0]


@pytest.mark.parametrize("path", ["lake", "/lake", "C:/lake", "lake:2026/a", "s3://bucket/lake"])
def test_folders_and_buckets_are_taken(path):
    assert LakeSettings.read({"path": path}).path == path


def test_positions_of_tables_cannot_be_moved(tmp_path):
    made = LakeSink(LakeSettings.read({"path": str(tmp_path)}))
    with pytest.raises(ConnectError, match=r"change path or table\.name\.format"):
        made.set_positions("lake", {P0: 0})


def test_a_folder_that_cannot_be_made_is_found_at_creation(tmp_path):
    (tmp_path / "file").write_text("")
    made = LakeSink(LakeSettings.read({"path": str(tmp_path / "file/below")}))
    assert "cannot be created" in made.check()["path"]


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(FORMATS),
    steps=st.lists(st.tuples(st.sampled_from("pfc"), st.integers(1, 5)), max_size=12),
)
def test_every_record_is_there_once_after_any_interruption(tmp_path_factory, kind, steps):
    """Puts, flushes and crashes (c: a new task takes over from the stored positions) in any order."""
    path = tmp_path_factory.mktemp("lake")
    sent = 0
    task = a_task(path, format=kind, flush_size="4")
    task.open([P0])
    for step, count in [*steps, ("p", 1), ("f", 0)]:
        if step == "p":
            task.put(records(P0, sent, [{"n": sent + index} for index in range(count)]))
            sent += count
        elif step == "f":
            task.flush()
        else:
            # The worker's own commit is somewhere behind the table's position.
            task = a_task(path, format=kind, flush_size="4")
            task.open([P0])
            sent = max((stored(path, P0, kind) or 0) - count, 0)
    reached = max(sent, stored(path, P0, kind) or 0)
    assert sorted(row["n"] for row in rows(path, kind=kind)) == list(range(reached))


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A stand-in of S3 on loopback."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="me",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    ).create_bucket(Bucket="lake")
    yield endpoint
    server.stop()


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_on_an_s3_compatible_store(s3, kind):
    texts = {
        "s3_endpoint": s3,
        "s3_access_key_id": "me",
        "s3_secret_access_key": "secret",
        "format": kind,
        "time_partition": "day",
    }
    path = f"s3://lake/{kind}"
    task = a_task(path, **texts)
    assert task.open([P0]) == {}
    task.put(records(P0, 0, [{"n": 1}, {"n": 2}]))
    task.flush()
    again = a_task(path, **texts)
    again.open([P0])
    again.put(records(P0, 1, [{"n": 2}, {"n": 3}]))
    again.flush()
    assert sorted(_rows_on_s3(again.settings, kind)) == [1, 2, 3]
    assert "secret" not in repr(again.settings)


def _rows_on_s3(chosen: LakeSettings, kind: str) -> list[int]:
    if kind == "delta":
        table = DeltaTable(f"{chosen.path}/clicks", storage_options=storage_options(chosen))
        found = table.to_pyarrow_table()
    else:
        fs = S3FileStore(chosen)._fs
        found = ds.dataset("lake/parquet/clicks", filesystem=fs, format="parquet").to_table()
    numbers: list[int] = found["n"].to_pylist()
    return numbers


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    files = LocalFileStore(tmp_path)
    files.write("a/b/c", b"one")
    files.write("a/b/c", b"two")
    assert files.read("a/b/c") == b"two"
    assert files.names("a/b") == ["c"]
    assert files.read("a/b/none") is None
    assert files.names("none") == []
