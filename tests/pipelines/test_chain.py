"""Chains of segments: whatever is done to them, every record stays in exactly one."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.pipelines.batch import cut_of
from strom.pipelines.chain import Manifest, OutOfPlace, Segment, Version, from_json, to_json
from strom.pipelines.compaction import plan
from strom.pipelines.offsets import Offsets

steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)


def version_of(moves):
    """A version whose segments move two partitions by these steps."""
    version = Version(1, "f", "d", (), Offsets((0, 0)), 0, "identity.parquet")
    for number, (first, second) in enumerate(moves):
        at = version.position
        end = Offsets((at[0] + first, at[1] + second))
        version = version.appended(Segment(at, end, (f"{number}.parquet",)))
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
    new = Segment(bounds[start], bounds[end], ("new.parquet",))
    spliced = version.spliced(new)
    check_whole(spliced, version.position)
    assert "new.parquet" in spliced.files
    assert len(set(spliced.files)) == len(spliced.files)


@given(steps, st.tuples(st.integers(0, 40), st.integers(0, 40)), st.booleans())
def test_a_batch_is_cut_where_the_chain_can_be(moves, archived, may_lead):
    version = version_of(moves)
    cut = cut_of(version, Offsets(archived), may_lead=may_lead)
    assert cut <= Offsets(archived)
    assert may_lead or cut in version.boundaries
    spliced = version.spliced(Segment(version.base, cut, ("batch.parquet",), "batch"))
    check_whole(spliced, max(version.position, cut, key=lambda one: one - version.base))


@given(steps, st.integers(0, 12))
def test_a_compaction_never_swallows_a_pinned_position(moves, pinned):
    version = version_of(moves)
    cut = version.boundaries[pinned % len(version.boundaries)]
    pinned_version = Version(**{**version.__dict__, "pinned": cut})
    run = plan(pinned_version, fan_in=2)
    if run is not None:
        inner = [segment.end for segment in run.segments[:-1]]
        assert cut not in inner


def test_what_does_not_fit_is_refused():
    version = version_of([(2, 2), (2, 2)])
    with pytest.raises(OutOfPlace):
        version.appended(Segment(Offsets((1, 1)), Offsets((9, 9)), ()))
    with pytest.raises(OutOfPlace):
        version.spliced(Segment(Offsets((1, 1)), Offsets((4, 4)), ()))
    with pytest.raises(OutOfPlace):
        version.spliced(Segment(Offsets((0, 0)), Offsets((3, 3)), ()))


def test_a_new_partition_begins_at_zero():
    assert Offsets((3,)) == Offsets((3, 0))
    assert Offsets((3,)) <= Offsets((3, 7))
    assert Offsets((3, 7)) - Offsets((3,)) == 7
    version = Version(1, "f", "d", (), Offsets((5,)), 0, "i")
    version.appended(Segment(Offsets((5, 0)), Offsets((6, 2)), ()))


@given(st.lists(st.integers(0, 100), max_size=4), st.integers(1, 50))
def test_a_limited_step_stays_between(ends, limit):
    start, end = Offsets(), Offsets(tuple(ends))
    until = end.at_most(start, limit)
    assert start <= until
    assert until <= end
    assert until - start <= limit + len(ends)


def test_a_step_is_never_nothing_while_there_is_something():
    assert Offsets((1000, 1)).at_most(Offsets(), 10) - Offsets() > 0


@given(steps)
def test_a_manifest_survives_its_file(moves):
    manifest = Manifest("v", "t", versions=(version_of(moves),)).switched_to(1)
    assert from_json(json.loads(json.dumps(to_json(manifest)))) == manifest
    skipping = manifest.with_version(replace(version_of(moves), skipped=((0, 7), (1, 3))))
    assert from_json(json.loads(json.dumps(to_json(skipping)))) == skipping


def test_the_active_version_cannot_be_dropped():
    manifest = Manifest("v", "t", versions=(version_of([]),)).switched_to(1)
    with pytest.raises(OutOfPlace):
        manifest.without(1)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=4), st.integers(1, 9))
def test_steps_towards_a_position_are_even_and_lose_nothing(partitions, steps):
    start = Offsets(tuple(first for first, _ in partitions))
    end = Offsets(tuple(first + more for first, more in partitions))
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
