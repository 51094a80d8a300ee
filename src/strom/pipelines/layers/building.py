"""Versions that are being built: one builder per view at a time; a later one resumes unfinished work."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from strom.model.errors import UserError
from strom.pipelines.definitions.view import View
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.topic_identity import is_same
from strom.pipelines.views.fingerprints import is_made_by
from strom.pipelines.views.manifests import Manifest, Manifests, Version
from strom.supervision.file_lock import LockHeld, held, is_held


@contextmanager
def sole_builder(manifests: Manifests, view: str) -> Iterator[None]:
    """Hold the lock of the view's builder; UserError if another process holds it."""
    with ExitStack() as holding:
        try:
            holding.enter_context(held(_lock_of(manifests, view)))
        except LockHeld as error:
            raise UserError(
                f"A new version of view {view} is being computed already, by {error.holder}. Wait until "
                f"it has finished, or stop it. Its state: strom views versions {view}"
            ) from None
        yield


def is_being_built(manifests: Manifests, view: str) -> bool:
    """Whether a process is building a new version of a view."""
    return is_held(_lock_of(manifests, view))


def building_version(manifest: Manifest | None) -> Version | None:
    """The newest unfinished version of a view."""
    return next(iter(_unfinished(manifest)), None)


def resumed(
    kafka: KafkaLog, manifests: Manifests, view: View, start: TopicOffsets
) -> Version | None:
    """The unfinished version that a replay from `start` can resume; others are dropped.

    Only the sole builder may call it.
    """
    unfinished = _unfinished(manifests.read(view.name))
    resumable = [one for one in unfinished if _can_resume(kafka, one, view, start)]
    for version in unfinished:
        if version not in resumable[:1]:
            _drop(manifests, view, version.number)
    return next(iter(resumable), None)


def _can_resume(kafka: KafkaLog, version: Version, view: View, start: TopicOffsets) -> bool:
    topic = view.stream.topic
    starts = kafka.starts(topic)
    # If retention has moved the log's start, a version that started there before contains more.
    is_same_start = version.base == start or (start == starts and version.base <= starts)
    return (
        is_same_start
        and is_made_by(version, view)
        and is_same(version, kafka.incarnation(topic))
        and kafka.holds(topic, version.position)
    )


def _unfinished(manifest: Manifest | None) -> list[Version]:
    versions = manifest.versions if manifest else ()
    return [one for one in reversed(versions) if one.state == "building"]


def _drop(manifests: Manifests, view: View, number: int) -> None:
    manifests.change(view.name, view.stream.topic, lambda manifest: manifest.without(number))


def _lock_of(manifests: Manifests, view: str) -> Path:
    return manifests.view_folder(view) / "build.lock"
