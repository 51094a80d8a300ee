"""Manifests on disk: who changes them, and when files may go."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from strom.model.errors import UserError
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.chain import Manifest, Version, ViewSegment
from strom.pipelines.views.manifests import Manifests


@pytest.fixture
def manifests(tmp_path):
    manifests = Manifests(tmp_path)
    version = Version(1, "f", "d", (), TopicOffsets(), 0, "v1/identity.parquet")
    manifests.change("v", "t", lambda before: before.with_version(version).switched_to(1))
    return manifests


def written(manifests, *names):
    for name in names:
        path = manifests.view_folder("v") / "v1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return tuple(f"v1/{name}" for name in names)


def spliced(manifests, segment):
    return manifests.change("v", "t", lambda m: m.with_version(m.version(1).spliced(segment)))


def test_changes_at_once_are_made_one_after_the_other(manifests):
    def add(number):
        def append(before: Manifest) -> Manifest:
            version = before.version(1)
            end = TopicOffsets((version.position[0] + 1,))
            return before.with_version(
                version.appended(ViewSegment(version.position, end, (f"{number}",)))
            )

        Manifests(manifests.folder).change("v", "t", append)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert manifests.existing("v").active_version.position == TopicOffsets((40,))


def test_replaced_files_stay_for_a_while(manifests):
    old = written(manifests, "a.parquet")
    spliced(manifests, ViewSegment(TopicOffsets(), TopicOffsets((5,)), old))
    new = written(manifests, "b.parquet")
    spliced(manifests, ViewSegment(TopicOffsets(), TopicOffsets((5,)), new, "batch"))
    assert manifests.sweep("v") == 0
    assert (manifests.view_folder("v") / old[0]).exists()
    assert manifests.sweep("v", grace_s=0) == 1
    assert not (manifests.view_folder("v") / old[0]).exists()
    assert (manifests.view_folder("v") / new[0]).exists()
    assert manifests.existing("v").retired == ()


def test_files_of_a_batch_at_work_are_left_alone(manifests):
    (file,) = written(manifests, "c.parquet")
    assert manifests.sweep("v", grace_s=0) == 0
    path = manifests.view_folder("v") / file
    os.utime(path, (0, 0))
    assert manifests.sweep("v", grace_s=0) == 1
    assert not path.exists()


def test_a_change_that_fails_changes_nothing(manifests):
    before = manifests.existing("v")

    def fail(manifest):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        manifests.change("v", "t", fail)
    assert manifests.existing("v") == before
    assert Manifests(manifests.folder).existing("v") == before


def test_a_half_written_manifest_is_nobodys(manifests):
    (manifests.view_folder("v") / "manifest.99.new").write_text("{")
    assert Manifests(manifests.folder).existing("v").active == 1
    assert replace(manifests.existing("v")).view == "v"


def test_an_unknown_view_is_reported(manifests):
    with pytest.raises(UserError, match="Known views: v"):
        manifests.existing("w")


def test_nothing_is_left_of_what_spark_wrote_when_its_states_are_replaced(manifests):
    """Spark puts a marker and checksums beside its files; a row view would pile them up."""
    names = "part-0.parquet", ".part-0.parquet.crc", "_SUCCESS", "._SUCCESS.crc"
    (old, *_) = written(manifests, *(f"speed/a/{name}" for name in names))
    spliced(manifests, ViewSegment(TopicOffsets(), TopicOffsets((5,)), (old,)))
    new = written(manifests, "speed/b/part-0.parquet", "speed/b/_SUCCESS", "speed/c.parquet")
    spliced(manifests, ViewSegment(TopicOffsets(), TopicOffsets((5,)), new[:1], "batch"))
    manifests.sweep("v")
    folder = manifests.view_folder("v") / "v1" / "speed"
    assert len(list((folder / "a").iterdir())) == len(names)
    assert manifests.sweep("v", grace_s=0) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["b", "c.parquet"]
    assert len(list((folder / "b").iterdir())) == 2


def test_a_folder_that_spark_writes_to_is_left_alone(manifests):
    written(manifests, "batch/a/_temporary/0/task.parquet", "batch/b/_temporary/0/none")
    assert manifests.sweep("v", grace_s=0) == 0
    folder = manifests.view_folder("v") / "v1" / "batch"
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]


def test_a_view_is_dropped_with_everything_and_can_begin_again(manifests):
    written(manifests, "a.parquet")
    manifests.drop("v")
    assert not manifests.view_folder("v").exists()
    assert manifests.read("v") is None
    assert manifests.sweep("v") == 0
    assert not manifests.view_folder("v").exists()
    manifests.change("v", "t", lambda before: before)
    assert manifests.names() == []
