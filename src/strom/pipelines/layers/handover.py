"""The end of a replay: how a new version overtakes the active one on a stream that never pauses.

A replay folds the log in rounds, each up to the log's end at the start of the round. The speed layer
appends to the active version meanwhile, so a round may end behind it, however short it is. When rounds
no longer get shorter, the replay pauses the speed layer of this one view for a last round: the active
version then does not move, and the log's end is not before it. The pause is a file lock: it ends with
the process that holds it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.topic_identity import is_same
from strom.pipelines.views.manifests import Manifest, Manifests, Version
from strom.supervision.file_lock import is_held, locked

PAUSE_S = 10.0
"""The expected maximum of a pause; longer only if rounds do not get shorter by themselves."""
PAUSED_ROUNDS = 3
"""A micro-batch that started before the pause may still move the active version, once."""


@dataclass(frozen=True)
class ReplayRound:
    """One pass of a replay, up to the log's end at its start."""

    records: int
    seconds: float
    arrived: int
    """The records that arrived meanwhile: the next round reads them."""


@dataclass(frozen=True)
class Pace:
    """How the durations of a replay's rounds develop."""

    last: ReplayRound | None = None
    has_caught_up: bool = False
    """Whether another round would hardly be shorter."""
    stalled: int = 0
    """The number of rounds that took more than nine tenths of the one before."""

    def after(self, done: ReplayRound) -> "Pace":
        """The pace after one more round."""
        if self.last is None:
            return Pace(done, has_caught_up=not done.records)
        return Pace(
            done,
            has_caught_up=not done.records or 2 * done.records > self.last.records,
            stalled=self.stalled + (10 * done.records > 9 * self.last.records),
        )

    @property
    def may_pause(self) -> bool:
        """Whether a paused round, which takes about as long as the last one, is short enough.

        The limit grows with every round that is not shorter. If the replay is faster than the stream,
        the length of rounds is bounded, and the limit eventually exceeds it. If it is slower, rounds
        grow by a factor, faster than the limit.
        """
        return self.last is not None and self.last.seconds <= PAUSE_S * (1 + self.stalled)


def hand_over(
    fold_round: Callable[[], ReplayRound],
    try_switch: Callable[[], bool],
    pause: Callable[[], AbstractContextManager[None]],
    on_outpaced: Callable[[ReplayRound], None],
) -> None:
    """Fold rounds until the version has reached the active one and replaced it."""
    pace = Pace()
    while True:
        done = fold_round()
        pace = pace.after(done)
        if not pace.has_caught_up:
            continue
        if try_switch():
            return
        if not pace.may_pause:
            if done.arrived >= done.records:
                on_outpaced(done)
            continue
        with pause():
            for _ in range(PAUSED_ROUNDS):
                fold_round()
                if try_switch():
                    return


def switch_if_reached(kafka: KafkaLog, manifests: Manifests, view: str, number: int) -> bool:
    """Activate a version, unless queries would go back in time; returns whether it is active now."""
    manifest = manifests.existing(view)
    lost = manifest.active_version
    if lost is not None and _belongs_to(lost, kafka, manifest.topic):
        lost = None

    def switch(manifest: Manifest) -> Manifest:
        active = manifest.active_version
        is_lost = active is not None and lost is not None and active.number == lost.number
        if active is None or is_lost or active.position <= manifest.version(number).position:
            return manifest.switched_to(number)
        return manifest

    return manifests.change(view, manifest.topic, switch).active == number


def _belongs_to(version: Version, kafka: KafkaLog, topic: str) -> bool:
    """Whether a position belongs to this log: that of a deleted topic can never be reached."""
    return version.position <= kafka.ends(topic) and is_same(version, kafka.incarnation(topic))


@contextmanager
def paused(manifests: Manifests, view: str) -> Iterator[None]:
    """Pause the micro-batches of a view; other views of its topic continue."""
    with locked(_lock_of(manifests, view)):
        yield


def is_paused(manifests: Manifests, view: str) -> bool:
    """Whether a replay has paused a view to replace its active version."""
    return is_held(_lock_of(manifests, view))


def _lock_of(manifests: Manifests, view: str) -> Path:
    return manifests.view_folder(view) / "handover.lock"
