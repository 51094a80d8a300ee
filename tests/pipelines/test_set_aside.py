"""Views that wait to be retried, and views that are set aside with a reason for everyone to see."""

import dataclasses

import pytest
from click.testing import CliRunner

from strom.cli.views import describe, list_views
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.set_aside import FILE, ViewStates, clear_reason, reason_set_aside
from strom.pipelines.views.manifests import Manifest, Manifests, Version

PROJECT = """
from strom.pipelines import Stream, View, count

clicks = Stream("clicks", schema="page STRING")
pages = View(reads=clicks, keys=["page"], measures={"n": count()})
"""


def version(number):
    return Version(
        number, "f", "n = count() by page", (), TopicOffsets((0,)), 0, "identity.parquet"
    )


@pytest.fixture
def manifests(tmp_path):
    (tmp_path / "strom.toml").write_text('name = "shop"\n')
    (tmp_path / "views.py").write_text(PROJECT)
    manifests = Manifests(tmp_path / "data" / "views")
    manifests.change(
        "pages",
        "clicks",
        lambda _: Manifest("pages", "clicks", 1, versions=(version(1), version(2))),
    )
    return manifests


def test_a_failing_view_is_retried_ever_later_until_it_succeeds(manifests, caplog):
    now = [0.0]
    states = ViewStates(manifests, clock=lambda: now[0], chance=lambda: 0.0)
    waits = []
    for _ in range(8):
        states.retry_later("pages", 1, "the broker is full")
        assert not states.is_ready("pages", 1)
        assert states.is_ready("other", 1)
        began = now[0]
        while not states.is_ready("pages", 1):
            now[0] += 0.5
        waits.append(now[0] - began)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    states.on_success("pages", 1)
    states.on_success("pages", 1)
    assert [one.getMessage() for one in caplog.records] == [
        "view pages failed and is retried: the broker is full",
        "view pages works again, after 8 failed attempts",
    ]
    assert states.reasons == {}


def test_the_reason_is_shown_as_long_as_that_version_is_active(manifests, tmp_path):
    states = ViewStates(manifests)
    states.set_aside("pages", 1, "101 records cannot be computed")
    assert not states.is_ready("pages", 1)
    assert states.is_ready("pages", 2)
    assert reason_set_aside(manifests, "pages") == "101 records cannot be computed"
    skipping = dataclasses.replace(version(1), skipped=((0, 7), (2, 3)))
    manifests.change("pages", "clicks", lambda before: before.with_version(skipping))
    project = ["--project", str(tmp_path)]
    listed = CliRunner().invoke(list_views, project).output
    described = CliRunner().invoke(describe, ["pages", *project]).output
    assert "pages is set aside: 101 records cannot be computed" in listed
    assert "set aside: 101 records cannot be computed" in described
    assert "2 records skipped (partition:offset): 0:7, 2:3" in described
    manifests.change("pages", "clicks", lambda before: before.switched_to(2))
    assert reason_set_aside(manifests, "pages") is None
    manifests.change("pages", "clicks", lambda before: before.switched_to(1))
    clear_reason(manifests, "pages")
    clear_reason(manifests, "pages")
    assert reason_set_aside(manifests, "pages") is None


def test_a_dropped_view_gets_no_folder_again_and_a_torn_file_is_none(manifests):
    ViewStates(manifests).set_aside("dropped", 1, "gone")
    assert not manifests.view_folder("dropped").exists()
    (manifests.view_folder("pages") / FILE).write_text('{"version": 1, "rea')
    assert reason_set_aside(manifests, "pages") is None
