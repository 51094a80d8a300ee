"""Manifests on disk: who changes them, and when files may go."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.errors import UserError
from strom.pipelines.layers.batch import cut_of
from strom.pipelines.layers.compaction import FAN_IN, MAX_FILES, plan
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.manifests import (
    ChainConflict,
    Manifest,
    Manifests,
    Version,
    ViewSegment,
    from_json,
    to_json,
)


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


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)


def version_of(moves, empty=(), pinned=None):
    """A version whose segments move two partitions by these steps; some of them have no states."""
    version = Version(1, "f", "d", (), TopicOffsets((0, 0)), 0, "identity.parquet", pinned=pinned)
    for number, (first, second) in enumerate(moves):
        at = version.position
        end = TopicOffsets((at[0] + first, at[1] + second))
        files = () if number in empty else (f"{number}.parquet",)
        version = version.appended(ViewSegment(at, end, files))
    return version


def check_whole(version, end):
    position = version.base
    for segment in version.segments:
        assert segment.start == position
        assert segment.start <= segment.end
        position = segment.end
    assert position == end


@given(steps, st.integers(0, 12), st.integers(0, 12))
def test_splicing_keeps_the_chain_whole(moves, first, last):
    version = version_of(moves)
    bounds = version.boundaries
    start, end = sorted((first % len(bounds), last % len(bounds)))
    new = ViewSegment(bounds[start], bounds[end], ("new.parquet",))
    spliced = version.spliced(new)
    check_whole(spliced, version.position)
    assert "new.parquet" in spliced.files
    assert len(set(spliced.files)) == len(spliced.files)


@given(steps, st.sets(st.integers(0, 12)), st.integers(0, 12))
def test_empty_segments_are_joined_and_no_boundary_is_lost_that_a_batch_needs(moves, empty, at):
    every = version_of(moves).boundaries
    pinned = every[at % len(every)]
    version = version_of(moves, empty, pinned)
    check_whole(version, every[-1])
    assert [one.files for one in version.segments if one.files] == [
        (f"{number}.parquet",) for number in range(len(moves)) if number not in empty
    ]
    for before, after in pairwise(version.segments):
        assert before.files or after.files or before.end == pinned
    kept = {every[number + 1] for number in range(len(moves)) if number not in empty}
    assert {*kept, pinned} <= set(version.boundaries)
    assert version.collapsed() is version


@given(steps, st.sets(st.integers(0, 12)), st.integers(0, 12))
def test_a_chain_of_an_earlier_release_is_collapsed_to_the_same(moves, empty, at):
    every = version_of(moves)
    pinned = every.boundaries[at % len(every.boundaries)]
    old = replace(
        every,
        pinned=pinned,
        segments=tuple(
            replace(one, files=() if number in empty else one.files)
            for number, one in enumerate(every.segments)
        ),
    )
    assert old.collapsed() == version_of(moves, empty, pinned)


def test_a_quiet_streams_chain_does_not_grow():
    """Each append writes the whole manifest, so its size is what an append costs."""
    moves = [(1, 0)] * 2000
    assert len(version_of(moves, empty=range(2000)).segments) == 1
    written = json.dumps(to_json(Manifest("v", "t", versions=(version_of(moves, range(2000)),))))
    assert len(written) < 1000


@pytest.mark.parametrize("between", [0, 3])
def test_a_long_backlog_is_merged_in_bounded_bites_and_few_changes(between):
    """4,000 segments with states, as an earlier release left them, with empty ones between."""
    count = 4000 * (between + 1)
    version = version_of([(1, 0)] * count, {n for n in range(count) if n % (between + 1)})
    read, changes = 0, 0
    while runs := plan(version):
        changes += 1
        for number, run in enumerate(runs):
            files = [file for one in run.segments for file in one.files]
            assert len(files) <= MAX_FILES
            read += len(files)
            start, end = run.segments[0].start, run.segments[-1].end
            merged = ViewSegment(start, end, (f"{changes}-{number}",), level=run.level)
            version = version.spliced(merged)
    check_whole(version, TopicOffsets((count, 0)))
    assert len(version.segments) < 3 * FAN_IN
    assert changes <= 3
    assert read < 2 * 4000


def test_segments_of_many_files_are_merged_as_well():
    """A row view may have a file of each core in every segment."""
    version = version_of([(1, 0)] * FAN_IN)
    many = tuple(f"{number}.parquet" for number in range(MAX_FILES))
    version = replace(version, segments=tuple(replace(one, files=many) for one in version.segments))
    (run,) = plan(version)
    assert run.segments == version.segments


@given(steps, st.tuples(st.integers(0, 40), st.integers(0, 40)), st.booleans())
def test_a_batch_is_cut_where_the_chain_can_be(moves, archived, may_lead):
    version = version_of(moves)
    cut = cut_of(version, TopicOffsets(archived), may_lead=may_lead)
    assert cut <= TopicOffsets(archived)
    assert may_lead or cut in version.boundaries
    spliced = version.spliced(ViewSegment(version.base, cut, ("batch.parquet",), "batch"))
    check_whole(spliced, max(version.position, cut, key=lambda one: one - version.base))


def test_a_version_that_begins_ahead_of_the_archive_has_an_empty_batch():
    version = replace(version_of([]), base=TopicOffsets((5, 5)))
    assert cut_of(version, TopicOffsets((5, 3)), may_lead=False) == version.base


@given(steps, st.integers(0, 12))
def test_a_compaction_never_swallows_a_pinned_position(moves, pinned):
    version = version_of(moves)
    cut = version.boundaries[pinned % len(version.boundaries)]
    pinned_version = replace(version, pinned=cut)
    for run in plan(pinned_version, fan_in=2):
        inner = [segment.end for segment in run.segments[:-1]]
        assert cut not in inner


def test_what_does_not_fit_is_refused():
    version = version_of([(2, 2), (2, 2)])
    with pytest.raises(ChainConflict):
        version.appended(ViewSegment(TopicOffsets((1, 1)), TopicOffsets((9, 9)), ()))
    with pytest.raises(ChainConflict):
        version.spliced(ViewSegment(TopicOffsets((1, 1)), TopicOffsets((4, 4)), ()))
    with pytest.raises(ChainConflict):
        version.spliced(ViewSegment(TopicOffsets((0, 0)), TopicOffsets((3, 3)), ()))


def test_a_new_partition_begins_at_zero():
    assert TopicOffsets((3,)) == TopicOffsets((3, 0))
    assert TopicOffsets((3,)) <= TopicOffsets((3, 7))
    assert TopicOffsets((3, 7)) - TopicOffsets((3,)) == 7
    version = Version(1, "f", "d", (), TopicOffsets((5,)), 0, "i")
    version.appended(ViewSegment(TopicOffsets((5, 0)), TopicOffsets((6, 2)), ()))


partitions = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=4)


@given(partitions, st.integers(1, 50))
def test_a_limited_step_takes_as_many_records_as_it_may(ends, limit):
    start = TopicOffsets(tuple(first for first, _ in ends))
    end = TopicOffsets(tuple(first + more for first, more in ends))
    until = end.at_most(start, limit)
    assert start <= until
    assert until <= end
    assert until - start == min(limit, end - start)


@given(partitions)
def test_steps_of_one_record_reach_the_end(ends):
    position = TopicOffsets(tuple(first for first, _ in ends))
    end = TopicOffsets(tuple(first + more for first, more in ends))
    for _ in range(end - position):
        position = end.at_most(position, 1)
    assert position == end


def test_a_partition_that_lies_behind_is_not_hidden_by_others():
    """A topic that was recreated: the caller compares, and has to notice."""
    assert TopicOffsets((500, 2)).at_most(TopicOffsets((0, 7)), 10) == TopicOffsets((10, 2))


@given(steps)
def test_a_manifest_survives_its_file(moves):
    manifest = Manifest("v", "t", versions=(version_of(moves),)).switched_to(1)
    assert from_json(json.loads(json.dumps(to_json(manifest)))) == manifest
    skipping = manifest.with_version(replace(version_of(moves), skipped=((0, 7), (1, 3))))
    assert from_json(json.loads(json.dumps(to_json(skipping)))) == skipping


def test_the_active_version_cannot_be_dropped():
    manifest = Manifest("v", "t", versions=(version_of([]),)).switched_to(1)
    with pytest.raises(ChainConflict):
        manifest.without(1)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=4), st.integers(1, 9))
def test_steps_towards_a_position_are_even_and_lose_nothing(partitions, steps):
    start = TopicOffsets(tuple(first for first, _ in partitions))
    end = TopicOffsets(tuple(first + more for first, more in partitions))
    bounds = start.towards(end, steps)
    assert (bounds[0], bounds[-1], len(bounds)) == (start, end, steps + 1)
    for before, after in pairwise(bounds):
        assert before <= after
        assert after - before <= (end - start) / steps + len(partitions)


def test_manifests_of_earlier_releases_have_skipped_nothing():
    manifest = Manifest("v", "clicks", 1, versions=(version_of([(1, 2)]),))
    stored = json.loads(json.dumps(to_json(manifest)))
    for version in stored["versions"]:
        del version["skipped"]
    assert from_json(stored) == manifest
