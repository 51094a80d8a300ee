"""Unfinished versions: one builder at a time, which resumes what fits and drops what does not."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from strom.model.errors import UserError
from strom.pipelines import Stream, View, count
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.building import building_version, is_being_built, resumed, sole_builder
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.manifests import Manifests, ViewSegment, from_json, to_json
from strom.pipelines.views.versions import new_version, rolled_back

STREAM = Stream("clicks", schema="page STRING", partitions=2)
VIEW = View(reads=STREAM, keys=["page"], measures={"n": count()}, name="pages")
OTHER = View(reads=STREAM, keys=["page"], measures={"views": count()}, name="pages")
START, POSITION = TopicOffsets((10, 10)), TopicOffsets((20, 20))


class Log(KafkaLog):
    """A log of one topic, without a broker."""

    def __init__(self, starts=START, incarnation=7):
        super().__init__("nowhere")
        self._starts, self._incarnation = starts, incarnation

    def starts(self, topic):
        return self._starts

    def incarnation(self, topic):
        return self._incarnation

    def holds(self, topic, position):
        return self._starts <= position


@pytest.fixture
def manifests(tmp_path):
    """An active version, and one that a killed replay from START on has left."""
    manifests = Manifests(tmp_path)
    add(manifests, OTHER)
    add(manifests, VIEW, state="building")
    return manifests


def add(manifests, view, **options):
    identity = pa.table({"page": pa.array([], pa.string())})
    made = new_version(
        manifests, view, START, identity, {"page": "string"}, incarnation=7, **options
    )
    file = manifests.view_folder("pages") / f"v{made.number}" / "states.parquet"
    file.write_bytes(b"")
    segment = ViewSegment(START, POSITION, (f"v{made.number}/states.parquet",))
    manifests.change(
        "pages",
        "clicks",
        lambda before: before.with_version(before.version(made.number).appended(segment)),
    )


def test_an_unfinished_version_is_resumed(manifests):
    assert resumed(Log(), manifests, VIEW, START).number == 2
    assert building_version(manifests.existing("pages")).position == POSITION


def test_a_version_from_the_beginning_is_resumed_though_retention_has_moved_that(manifests):
    later = TopicOffsets((15, 12))
    assert resumed(Log(starts=later), manifests, VIEW, later).number == 2


@pytest.mark.parametrize(
    ("log", "view", "start"),
    [
        (Log(), OTHER, START),
        (Log(), VIEW, TopicOffsets((12, 12))),
        (Log(starts=TopicOffsets()), VIEW, TopicOffsets()),
        (Log(incarnation=8), VIEW, START),
        (Log(starts=TopicOffsets((30, 30))), VIEW, TopicOffsets((30, 30))),  # its position is gone
    ],
    ids=["definition", "start", "earlier start", "topic", "log"],
)
def test_an_unfinished_version_that_does_not_fit_is_dropped_with_its_files(
    manifests, log, view, start
):
    assert resumed(log, manifests, view, start) is None
    manifest = manifests.existing("pages")
    assert [version.number for version in manifest.versions] == [1]
    assert manifest.active == 1
    assert "v2/states.parquet" in {file for file, _ in manifest.retired}
    manifests.sweep("pages", grace_s=0)
    assert not list(manifests.version_folder("pages", 2).glob("*.parquet"))


def test_unfinished_versions_do_not_pile_up(manifests):
    add(manifests, VIEW, state="building")
    assert resumed(Log(), manifests, VIEW, START).number == 3
    assert [version.number for version in manifests.existing("pages").versions] == [1, 3]


def test_ready_versions_are_neither_resumed_nor_dropped(manifests):
    before = manifests.change("pages", "clicks", lambda manifest: manifest.with_ready(2))
    assert resumed(Log(), manifests, VIEW, START) is None
    assert manifests.existing("pages") == before


def test_a_second_builder_is_refused_until_the_first_has_ended(manifests):
    with sole_builder(manifests, "pages"):
        assert is_being_built(manifests, "pages")
        with pytest.raises(
            UserError, match="A new version of view pages is being computed already"
        ):
            enter(sole_builder(manifests, "pages"))
    assert not is_being_built(manifests, "pages")
    with sole_builder(manifests, "pages"):
        pass


def enter(context):
    with context:
        raise AssertionError("both are builders")


def test_queries_cannot_be_rolled_back_to_an_unfinished_version(manifests):
    with pytest.raises(UserError, match=r"still building.*strom replay pages"):
        rolled_back(manifests.existing("pages"), 2)


def test_versions_that_0_1_0_has_stored_are_ready(manifests):
    """Its manifests have no states. Any version may be kept for a rollback: none may be dropped."""
    stored = json.loads(json.dumps(to_json(manifests.existing("pages"))))
    for version in stored["versions"]:
        del version["state"]
    read = from_json(stored)
    assert [read.state_of(version.number) for version in read.versions] == ["active", "ready"]
    assert building_version(read) is None
    assert rolled_back(read, 2).active == 2
    assert replace(read.version(1), state="ready") == manifests.existing("pages").version(1)
