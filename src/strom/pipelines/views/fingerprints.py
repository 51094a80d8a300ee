"""Fingerprints of definitions: whether a version of a view was computed by a definition.

A fingerprint covers everything that determines the states: the stream's schema, the expressions, the
code that `prepare` reaches, and the content of static tables.
"""

import dataclasses
import hashlib
import json
import logging
from typing import Any

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError
from strom.pipelines.definitions.view import View
from strom.pipelines.views.legacy_fingerprint import legacy_fingerprint
from strom.pipelines.views.manifests import Manifest, Manifests, Version
from strom.pipelines.views.reached_code import reached
from strom.pipelines.views.stored_definitions import store

log = logging.getLogger(__name__)

_SCHEME = "2:"
"""The prefix of these fingerprints; those of 0.1.0 have none."""


def fingerprint(view: View) -> str:
    """A text that is equal for definitions that compute the same."""
    stream = view.stream
    source = [stream.topic, stream.ddl, stream.format, stream.event_time, bool(stream.registry)]
    steps = [_described(step, measured=step is view) for step in view.steps]
    text = json.dumps([source, steps], ensure_ascii=False)
    return _SCHEME + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_made_by(version: Version, view: View) -> bool:
    """Whether a version was computed by this definition."""
    if version.fingerprint.startswith(_SCHEME):
        return version.fingerprint == fingerprint(view)
    return version.fingerprint == legacy_fingerprint(view)


def adopt(manifests: Manifests, view: View, version: Version) -> None:
    """Replace the fingerprint of 0.1.0 by a current one, so that all changes are detected from now on.

    What else that version was computed from (imported files, static tables) is no longer known: it is
    assumed to be the current state.
    """
    if version.fingerprint.startswith(_SCHEME):
        return
    try:
        made = fingerprint(view)
    except UserError as reason:
        log.warning("%s Until then, such changes of %s are not detected.", reason, view.name)
        return

    def renamed(manifest: Manifest) -> Manifest:
        present = manifest.version(version.number)
        return manifest.with_version(dataclasses.replace(present, fingerprint=made))

    store(view, manifests.version_folder(view.name, version.number))
    manifests.change(view.name, view.stream.topic, renamed)


def _described(view: View, *, measured: bool) -> list[Any]:
    keys = [
        key if isinstance(key, str) else [key.name, key.length_us, key.every_us]
        for key in view.keys
    ]
    measures = [
        [name, type(one).__name__, *map(repr, dataclasses.astuple(one))]
        for name, one in sorted(view.folded.items() if measured else ())
    ]
    tables = [
        [name, one.content or one.path, one.schema, one.format]
        for name, one in sorted(view.tables.items())
    ]
    # In order: a column may depend on the one before.
    columns = [list(pair) for pair in view.columns.items()]
    expected = [sorted(one.items()) for one in (view.expect_or_drop, view.expect_or_fail)]
    return [
        keys,
        measures,
        columns,
        view.where,
        tables,
        _code(view),
        list(view.select),
        *expected,
    ]


def _code(view: View) -> Any:
    if view.prepare is None:
        return None
    try:
        return reached(view.prepare)
    except DefinitionError:
        raise
    except UserError as error:
        raise DefinitionError(view.place, f"View {view.name}: {error}") from None
