"""Versions of a view: detecting changed definitions, storing definitions, switching."""

import time
import uuid
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.definitions.view import View
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.fingerprints import fingerprint, is_made_by
from strom.pipelines.views.manifests import Manifest, Manifests, Version, VersionState
from strom.pipelines.views.stored_definitions import load, store

if TYPE_CHECKING:
    import pyarrow as pa


def summary(view: View) -> str:
    """Keys and measures in one line."""
    if view.appends:
        return f"rows of {view.stream.topic}"
    keys = ", ".join(view.key_names) or "all"
    measured = ", ".join(f"{name} = {one.describe()}" for name, one in view.measures.items())
    rolled = f", from the groups of {view.rolls_up.name}" if view.rolls_up else ""
    return f"{measured} by {keys}{rolled}"


def current_version(manifest: Manifest | None, view: View) -> Version | None:
    """The newest version that was computed by this definition, if there is one."""
    same = [one for one in (manifest.versions if manifest else ()) if is_made_by(one, view)]
    return max(same, key=lambda version: version.number, default=None)


def new_version(
    manifests: Manifests,
    view: View,
    base: TopicOffsets,
    identity: "pa.Table",
    columns: dict[str, str],
    *,
    incarnation: int = 0,
    state: VersionState = "ready",
) -> Version:
    """Add a version to a view; the first one is active at once, unless it is building."""
    import pyarrow.parquet as pq

    made: list[Version] = []

    def add(manifest: Manifest) -> Manifest:
        number = max((version.number for version in manifest.versions), default=0) + 1
        folder = manifests.version_folder(view.name, number)
        folder.mkdir(parents=True, exist_ok=True)
        store(view, folder)
        identity_file = f"v{number}/identity-{uuid.uuid4().hex[:8]}.parquet"
        pq.write_table(identity, manifests.view_folder(view.name) / identity_file)
        version = Version(
            number=number,
            fingerprint=fingerprint(view),
            definition=summary(view),
            output=tuple(columns.items()),
            base=base,
            created_ms=time.time_ns() // 1_000_000,
            identity=identity_file,
            incarnation=incarnation,
            state=state,
        )
        made.append(version)
        changed = manifest.with_version(version)
        is_first = manifest.active is None and state == "ready"
        return changed.switched_to(number) if is_first else changed

    manifests.change(view.name, view.stream.topic, add)
    return made[-1]


def definition_of(
    manifests: Manifests, view: str, version: Version, *, to_compute: bool = False
) -> View:
    """The definition that a version was created with, even if the user's file has changed since."""
    return load(manifests.version_folder(view, version.number), to_compute=to_compute)


def rolled_back(manifest: Manifest, to: int | None = None) -> Manifest:
    """Activate the previously active version, or a given one."""
    wanted = manifest.previous if to is None else to
    if wanted is None:
        raise UserError(f"View {manifest.view} has no previous version to roll back to.")
    if wanted not in {version.number for version in manifest.versions}:
        raise UserError(f"View {manifest.view} has no version {wanted}.")
    if manifest.state_of(wanted) == "building":
        raise UserError(
            f"Version {wanted} of view {manifest.view} is still building: it has not caught up with the "
            f"log. Finish it with: strom replay {manifest.view}"
        )
    return manifest.switched_to(wanted)
