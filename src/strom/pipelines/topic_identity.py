"""Whether a view goes on with the topic that it began with.

A topic that was deleted and made anew has the same name, and offsets that mean other records. Its length
tells for a while only; the id that Kafka gives every topic tells always.
"""

from dataclasses import replace

from strom.pipelines.kafka_log import KafkaLog, LogTruncated
from strom.pipelines.views.chain import Manifest, Version
from strom.pipelines.views.manifests import Manifests


def check_same_topic(kafka: KafkaLog, manifests: Manifests, view: str, number: int) -> None:
    """Raise LogTruncated if a version was computed of another topic of that name."""
    manifest = manifests.existing(view)
    version = manifest.version(number)
    seen = kafka.incarnation(manifest.topic)
    if not version.incarnation and seen:
        manifests.change(view, manifest.topic, lambda before: _noted(before, number, seen))
    elif not is_same(version, seen):
        raise LogTruncated(
            f"View {view} was computed of another topic {manifest.topic} than the one that is there now: "
            f"that was deleted, and made anew. {replay_again(view)}"
        )


def is_same(version: Version, incarnation: int) -> bool:
    """Whether a version was computed of this topic, as far as that is known."""
    return not (version.incarnation and incarnation) or version.incarnation == incarnation


def replay_again(*views: str) -> str:
    """The way out for views whose log is not the one that they were computed of."""
    return "Compute it again with: " + " && ".join(f"strom replay {view}" for view in views)


def _noted(manifest: Manifest, number: int, incarnation: int) -> Manifest:
    return manifest.with_version(replace(manifest.version(number), incarnation=incarnation))
