"""What a run does with a view that has several versions: a table."""

import re

import pytest

from strom.pipelines import Stream, View, count
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.continuation import continuation
from strom.pipelines.views.fingerprints import fingerprint
from strom.pipelines.views.manifests import Manifest, Version, ViewSegment

STREAM = Stream("clicks", schema="page STRING", partitions=1)
PRESENT = View(reads=STREAM, keys=["page"], measures={"n": count()}, name="pages")
EARLIER = View(reads=STREAM, keys=["page"], measures={"views": count()}, name="pages")

REFUSED = (
    "refused",
    r"View pages differs from the definition that version 1 was.*strom replay pages",
)
RESUME = r"unfinished\. Resume it with: strom replay pages$"
GOES_ON = r"^View pages continues version {} with its stored definition\. "


def version(number, view, state="ready", at=10):
    segment = ViewSegment(TopicOffsets(), TopicOffsets((at,)), ())
    return Version(
        number, fingerprint(view), "d", (), TopicOffsets(), 0, "i", (segment,), state=state
    )


def manifest(*versions, active=None, previous=None):
    return Manifest("pages", "clicks", active, previous, versions)


@pytest.mark.parametrize(
    ("found", "is_being_built", "kind", "text"),
    [
        # Nothing was computed, or the present definition is active.
        (None, False, "continues", None),
        (manifest(), False, "continues", None),
        (manifest(version(1, PRESENT), active=1), False, "continues", None),
        # A first version that a replay has not finished.
        (manifest(version(1, PRESENT, "building")), False, "continues", f"^A replay .* {RESUME}"),
        # The same definition again, from elsewhere.
        (
            manifest(version(1, PRESENT), version(2, PRESENT, "building"), active=1),
            False,
            "continues",
            f"^A replay of view pages to version 2 is {RESUME}",
        ),
        (
            manifest(version(1, PRESENT), version(2, PRESENT, "building"), active=1),
            True,
            "continues",
            r"^A replay of view pages to version 2 is in progress\.$",
        ),
        # The definition was changed back, and an abandoned version is left.
        (
            manifest(version(1, PRESENT), version(2, EARLIER, "building"), active=1),
            False,
            "continues",
            r"has changed since.*strom views drop pages --version 2$",
        ),
        # Changed, and nothing of the present definition.
        (manifest(version(1, EARLIER), active=1), False, *REFUSED),
        (manifest(version(1, EARLIER), version(2, EARLIER, "building"), active=1), True, *REFUSED),
        # Changed, and a replay is unfinished or in progress: never "was rolled back".
        (
            manifest(version(1, EARLIER), version(2, PRESENT, "building"), active=1),
            False,
            "continues",
            GOES_ON.format(1) + f"A replay of view pages to version 2 is {RESUME}",
        ),
        (
            manifest(version(1, EARLIER), version(2, PRESENT, "building"), active=1),
            True,
            "continues",
            GOES_ON.format(1) + r"A replay of view pages to version 2 is in progress\.$",
        ),
        # Ready by --no-switch.
        (
            manifest(version(1, EARLIER), version(2, PRESENT), active=1),
            False,
            "continues",
            GOES_ON.format(1)
            + r"Version 2 of the current definition is ready\..*strom views rollback pages --to 2$",
        ),
        (
            manifest(version(1, EARLIER, at=30), version(2, PRESENT), active=1),
            False,
            "continues",
            GOES_ON.format(1) + r"Version 2 .* is ready, 20 records behind\.",
        ),
        # Really rolled back.
        (
            manifest(version(1, EARLIER), version(2, PRESENT), active=1, previous=2),
            False,
            "continues",
            r"^View pages was rolled back\. View pages continues version 1 with its stored def\w+\.$",
        ),
        # Replayed by another definition, and the file changed back: that is no rollback.
        (
            manifest(version(1, PRESENT), version(2, EARLIER), active=2, previous=1),
            False,
            "continues",
            GOES_ON.format(2) + r"Version 1 .*strom views rollback pages --to 1$",
        ),
    ],
)
def test_a_run_continues_the_active_version_and_reports_the_truth(
    found, is_being_built, kind, text
):
    decided = continuation(found, PRESENT, is_being_built=is_being_built)
    message = decided.refusal if kind == "refused" else decided.notice
    assert (decided.refusal is not None) == (kind == "refused")
    assert message is None if text is None else re.search(text, message), message
