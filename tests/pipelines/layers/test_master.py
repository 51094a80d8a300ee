"""The master dataset after kill -9 inside its compaction: every record once, and it goes on."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strom.pipelines.layers import master
from strom.pipelines.layers.master import MasterDataset
from strom.pipelines.offsets import TopicOffsets
from tests.pipelines.killed_archive import POINTS

ROOT = Path(__file__).resolve().parents[3]
FILES, RECORDS = 40, 200


def records(first):
    count = range(first, first + RECORDS)
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.table(
        {
            "topic": ["clicks"] * RECORDS,
            "partition": pa.array([0] * RECORDS, pa.int32()),
            "offset": pa.array(count, pa.int64()),
            "timestamp": pa.array(count, pa.timestamp("us", "UTC")),
            "key": pa.array([b"k"] * RECORDS, pa.binary()),
            "value": pa.array([b"%d" % number for number in count], pa.binary()),
            "headers": pa.array([[]] * RECORDS, pa.list_(header)),
        }
    )


def append(archive, number):
    folder = archive.path / f"records-{number}"
    folder.mkdir()
    file = folder / "part-0.parquet"
    pq.write_table(records(number * RECORDS), file)
    archive.add({file: RECORDS}, TopicOffsets(((number + 1) * RECORDS,)), 7)


def offsets(archive):
    found = [pq.read_table(file, columns=["offset"]) for file in archive.files()]
    return sorted(pa.concat_tables(found)["offset"].to_pylist())


@pytest.mark.parametrize("point", POINTS)
def test_an_archive_survives_a_kill_inside_its_compaction(point, tmp_path, monkeypatch):
    archive = MasterDataset(tmp_path, "clicks")
    archive.create(TopicOffsets((0,)), 7)
    for number in range(FILES):
        append(archive, number)
    command = [
        sys.executable,
        "-m",
        "tests.pipelines.killed_archive",
        str(tmp_path),
        "clicks",
        point,
    ]
    ran = subprocess.run(command, cwd=ROOT, check=False, stderr=subprocess.PIPE, timeout=120)
    # It may have ended before its watcher saw the point: the promises are the same.
    assert ran.returncode in (-9, 0), ran.stderr.decode()
    assert archive.position() == TopicOffsets((FILES * RECORDS,))
    assert archive.incarnation() == 7
    assert offsets(archive) == list(range(FILES * RECORDS))
    assert all(Path(file).exists() for file in archive.files())

    append(archive, FILES)
    archive.sweep()
    monkeypatch.setattr(master, "SMALL_FILES", 2)
    assert archive.compact()
    assert offsets(archive) == list(range((FILES + 1) * RECORDS))
    assert archive.position() == TopicOffsets(((FILES + 1) * RECORDS,))
