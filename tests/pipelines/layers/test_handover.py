"""How a new version overtakes the active one, without Spark: time and the log are simulated."""

from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers.handover import (
    PAUSE_S,
    Pace,
    ReplayRound,
    hand_over,
    is_paused,
    paused,
    switch_if_reached,
)
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.manifests import Manifest, Manifests, Version, ViewSegment


@dataclass
class LiveStream:
    """A log that grows for ever; the speed layer brings the active version to its end in every round."""

    reads: float
    """Records per second that the replay reads; each round takes a second besides."""
    grows: float
    end: float
    position: float = 0
    active: float = 0
    is_paused: bool = False
    most_rounds: int = 5_000
    rounds: int = 0
    outpaced: int = 0
    longest_pause: float = 0

    def fold_round(self):
        self.rounds += 1
        assert self.rounds < self.most_rounds, "the replay chases the active version for ever"
        records = self.end - self.position
        seconds = 1 + records / self.reads
        self.position = self.end
        self.end += seconds * self.grows
        if self.is_paused:
            self.longest_pause = max(self.longest_pause, seconds)
        else:
            self.active = self.end
        return ReplayRound(int(records), seconds, int(seconds * self.grows))

    def try_switch(self):
        return self.active <= self.position

    @contextmanager
    def pause(self):
        self.is_paused = True
        yield
        self.is_paused = False

    def on_outpaced(self, done):
        assert done.seconds > PAUSE_S
        self.outpaced += 1

    def hand_over(self):
        hand_over(self.fold_round, self.try_switch, self.pause, self.on_outpaced)


@given(
    reads=st.floats(100, 1e6),
    share=st.floats(0, 0.99),
    history=st.floats(0, 1e9),
)
def test_a_replay_that_is_faster_than_the_stream_always_switches(reads, share, history):
    stream = LiveStream(reads, reads * share, history)
    stream.hand_over()
    assert stream.active <= stream.position


def test_a_pause_is_short_where_the_replay_is_twice_as_fast_as_the_stream():
    stream = LiveStream(reads=300_000, grows=150_000, end=100_000_000)
    stream.hand_over()
    assert stream.outpaced == 0
    assert stream.longest_pause < PAUSE_S


def test_a_replay_that_the_stream_outpaces_goes_on_and_reports_it():
    stream = LiveStream(reads=1_000, grows=2_000, end=100_000, most_rounds=50)
    with pytest.raises(AssertionError, match="for ever"):
        stream.hand_over()
    assert stream.outpaced > 40


def test_a_quiet_log_needs_no_pause():
    stream = LiveStream(reads=1_000, grows=0, end=500)
    stream.hand_over()
    assert (stream.rounds, stream.longest_pause) == (2, 0)


def test_the_pace_counts_rounds_that_are_not_shorter():
    pace = Pace()
    for records in (1_000, 400, 100, 60, 60):
        pace = pace.after(ReplayRound(records, 11.0, 0))
    assert pace.has_caught_up
    assert pace.stalled == 1
    assert pace.may_pause
    assert not replace(pace, stalled=0).may_pause


class Log(KafkaLog):
    """A log of one topic, without a broker."""

    def __init__(self, ends, incarnation=7):
        super().__init__("nowhere")
        self._ends, self._incarnation = TopicOffsets(ends), incarnation

    def ends(self, topic):
        return self._ends

    def incarnation(self, topic):
        return self._incarnation


@pytest.fixture
def manifests(tmp_path):
    return Manifests(tmp_path)


def two_versions(manifests, active_at, building_at, *, incarnation=7):
    def add(manifest: Manifest) -> Manifest:
        one = version(1, active_at, incarnation=incarnation)
        two = version(2, building_at, state="building", incarnation=7)
        return manifest.with_version(one).with_version(two).switched_to(1)

    manifests.change("v", "t", add)


def version(number, at, **options):
    segment = ViewSegment(TopicOffsets(), TopicOffsets(at), ())
    return Version(number, "f", "d", (), TopicOffsets(), 0, "identity", (segment,), **options)


@pytest.mark.parametrize(
    ("active_at", "building_at", "switches"),
    [
        ((5, 5), (5, 5), True),
        ((5, 5), (5, 6), True),
        ((5, 5), (9, 4), False),  # partition 1 would go back
        ((5,), (5, 0), True),
        ((5, 1), (5,), False),
    ],
)
def test_queries_go_back_in_no_partition(manifests, active_at, building_at, switches):
    two_versions(manifests, active_at, building_at)
    assert switch_if_reached(Log((9, 9)), manifests, "v", 2) is switches
    manifest = manifests.existing("v")
    assert manifest.active == (2 if switches else 1)
    assert manifest.state_of(2) == ("active" if switches else "building")
    assert manifest.previous == (1 if switches else None)


def test_an_active_version_of_a_deleted_topic_need_not_be_reached(manifests):
    two_versions(manifests, (50, 50), (5, 5), incarnation=6)
    assert switch_if_reached(Log((60, 60)), manifests, "v", 2)


def test_an_active_version_beyond_the_end_of_the_log_need_not_be_reached(manifests):
    two_versions(manifests, (50, 50), (5, 5))
    assert switch_if_reached(Log((5, 5)), manifests, "v", 2)


def test_what_the_speed_layer_appends_while_the_switch_is_decided_counts(manifests):
    two_versions(manifests, (5, 5), (5, 5))

    class Advancing(Log):
        def ends(self, topic):
            manifests.change("v", "t", lambda m: m.with_version(version(1, (6, 6), incarnation=7)))
            return super().ends(topic)

    assert not switch_if_reached(Advancing((5, 5)), manifests, "v", 2)
    assert manifests.existing("v").active == 1


def test_a_pause_ends_with_its_holder_and_asking_makes_no_file(manifests):
    assert not is_paused(manifests, "v")
    assert not manifests.view_folder("v").exists()
    with paused(manifests, "v"):
        assert is_paused(manifests, "v")
    assert not is_paused(manifests, "v")
