"""Which version a run continues, if the project's definition and the computed one may differ."""

from dataclasses import dataclass

from strom.pipelines.definitions.view import View
from strom.pipelines.layers.building import building_version
from strom.pipelines.views.fingerprints import is_made_by
from strom.pipelines.views.manifests import Manifest, Version
from strom.pipelines.views.versions import current_version


@dataclass(frozen=True)
class Continuation:
    """Whether a run may continue a view, and the notice for the user."""

    refusal: str | None = None
    notice: str | None = None


def continuation(manifest: Manifest | None, view: View, *, is_being_built: bool) -> Continuation:
    """Decide by the versions of a view.

    A run continues the active one; if there is none, it creates one.
    """
    active = manifest.active_version if manifest else None
    building = building_version(manifest)
    unfinished = _unfinished(view, building, is_being_built) if building else None
    if manifest is None or active is None or is_made_by(active, view):
        return Continuation(notice=unfinished)
    goes_on = f"View {view.name} continues version {active.number} with its stored definition."
    if building and is_made_by(building, view):
        return Continuation(notice=f"{goes_on} {unfinished}")
    ready = current_version(manifest, view)
    if ready is None:
        return Continuation(refusal=_changed(view, active))
    if ready.number == manifest.previous and ready.number > active.number:
        return Continuation(notice=f"View {view.name} was rolled back. {goes_on}")
    return Continuation(notice=f"{goes_on} {_switchable(view, ready, active)}")


def _unfinished(view: View, building: Version, is_being_built: bool) -> str:
    replay = f"A replay of view {view.name} to version {building.number}"
    if is_being_built:
        return f"{replay} is in progress."
    if is_made_by(building, view):
        return f"{replay} is unfinished. Resume it with: strom replay {view.name}"
    return (
        f"{replay} is unfinished, and the definition has changed since. Remove that version with: "
        f"strom views drop {view.name} --version {building.number}"
    )


def _switchable(view: View, ready: Version, active: Version) -> str:
    behind = active.position - ready.position
    position = f", {behind} records behind" if behind > 0 else ""
    return (
        f"Version {ready.number} of the current definition is ready{position}. Switch to it with: "
        f"strom views rollback {view.name} --to {ready.number}"
    )


def _changed(view: View, active: Version) -> str:
    return (
        f"{view.place}: View {view.name} differs from the definition that version {active.number} was "
        f"computed with ({active.definition}). Compute the new one with "
        f"`strom replay {view.name}`, or undo the change.{_about_schema(view)}"
    )


def _about_schema(view: View) -> str:
    stream = view.stream
    if stream.registry is None:
        return ""
    return (
        f" Its stream is read as version {stream.version} of {stream.value_subject} in the registry; "
        "set `version=` in the stream to choose another."
    )
