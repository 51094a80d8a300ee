"""Verifies that a view continues with the topic that it was computed from.

A recreated topic has the same name, but its offsets are those of other records. Offsets beyond its end
reveal that only until it has grown; the topic id (KIP-516) always does.
"""

from dataclasses import replace

from strom.pipelines.kafka_log import KafkaLog, LogTruncated
from strom.pipelines.views.manifests import Manifest, Manifests, Version


def check_same_topic(kafka: KafkaLog, manifests: Manifests, view: str, number: int) -> None:
    """Raise LogTruncated if a version was computed from another topic of the same name."""
    manifest = manifests.existing(view)
    version = manifest.version(number)
    seen = kafka.incarnation(manifest.topic)
    if not version.incarnation and seen:
        manifests.change(view, manifest.topic, lambda old: _with_incarnation(old, number, seen))
    elif not is_same(version, seen):
        raise LogTruncated(
            f"Topic {manifest.topic}, which view {view} was computed from, was deleted and recreated. "
            f"{replay_hint(view)}"
        )


def is_same(version: Version, incarnation: int) -> bool:
    """Whether a version was computed from this topic; True if either has no topic id."""
    return not (version.incarnation and incarnation) or version.incarnation == incarnation


def replay_hint(*views: str) -> str:
    """The remedy for views whose topic is not the one that they were computed from."""
    return "Compute it again with: " + " && ".join(f"strom replay {view}" for view in views)


def _with_incarnation(manifest: Manifest, number: int, incarnation: int) -> Manifest:
    return manifest.with_version(replace(manifest.version(number), incarnation=incarnation))
