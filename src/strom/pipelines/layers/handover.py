"""The end of a replay: how a new version overtakes the active one on a stream that never pauses.

A replay folds the log in rounds, each up to the end that the log had when the round began. The speed
layer appends to the active version meanwhile, so a round may end behind it, however short it is. When
rounds no longer get shorter, the replay pauses the speed layer of this one view for a last round: the
active version then stands still, and the log's end is not before it. The pause is a file lock: it ends
with the process that holds it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.topic_identity import is_same
from strom.pipelines.views.chain import Manifest, Version
from strom.pipelines.views.manifests import Manifests
from strom.supervision.file_lock import is_held, locked

PAUSE_S = 10.0
"""How long a pause may be expected to last; longer only where rounds do not get shorter by themselves."""
PAUSED_ROUNDS = 3
"""A micro-batch that had begun before the pause may still move the active version, once."""


@dataclass(frozen=True)
class ReplayRound:
    """One pass of a replay, up to the end that the log had when it began."""

    records: int
    seconds: float
    arrived: int
    """Records that came to the log meanwhile: the next round has to read them."""


@dataclass(frozen=True)
class Pace:
    """How the rounds of a replay develop."""

    last: ReplayRound | None = None
    has_caught_up: bool = False
    """Whether another round would hardly be shorter."""
    stalled: int = 0
    """Rounds that were not shorter than nine tenths of the one before."""

    def after(self, done: ReplayRound) -> "Pace":
        """The pace with one more round."""
        if self.last is None:
            return Pace(done, has_caught_up=not done.records)
        return Pace(
            done,
            has_caught_up=not done.records or 2 * done.records > self.last.records,
            stalled=self.stalled + (10 * done.records > 9 * self.last.records),
        )

    @property
    def may_pause(self) -> bool:
        """Whether a paused round, which lasts about as long as the last one, is short enough.

        The limit grows with every round that is not shorter. Where the replay is faster than the stream,
        the length of rounds is bounded, and the limit exceeds it after some of them. Where it is
        slower, rounds grow by a factor, faster than the limit.
        """
        return self.last is not None and self.last.seconds <= PAUSE_S * (1 + self.stalled)


def hand_over(
    fold_round: Callable[[], ReplayRound],
    try_switch: Callable[[], bool],
    pause: Callable[[], AbstractContextManager[None]],
    on_outpaced: Callable[[ReplayRound], None],
) -> None:
    """Fold rounds until the version has reached the active one, and has taken its place."""
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
    """Switch to a version, unless queries would go back in time; whether it is active now."""
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
    """Whether a position is one of this log: one of a topic that was deleted can never be reached."""
    return version.position <= kafka.ends(topic) and is_same(version, kafka.incarnation(topic))


@contextmanager
def paused(manifests: Manifests, view: str) -> Iterator[None]:
    """Keep the speed layer from beginning a micro-batch of a view; others of its topic go on."""
    with locked(_lock_of(manifests, view)):
        yield


def is_paused(manifests: Manifests, view: str) -> bool:
    """Whether a replay is about to take a view over."""
    return is_held(_lock_of(manifests, view))


def _lock_of(manifests: Manifests, view: str) -> Path:
    return manifests.view_folder(view) / "handover.lock"
