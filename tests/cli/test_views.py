"""`strom views`: the states of versions, and what is refused because of them."""

import json

import pyarrow as pa
import pytest

from strom.pipelines import load_project
from strom.pipelines.layers.building import sole_builder
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.views.versions import new_version


@pytest.fixture
def project(strom, tmp_path):
    """A project whose view `shop` has an active version, a ready and an unfinished one."""
    assert strom("init", str(tmp_path / "shop")).exit_code == 0
    project = load_project(tmp_path / "shop")
    identity = pa.table({"clicks": pa.array([], pa.int64())})
    for state in ("ready", "ready", "building"):
        new_version(
            project.manifests, project.views["shop"], TopicOffsets(), identity, {}, state=state
        )
    return project


def test_versions_are_listed_with_their_states(strom, project):
    folder = str(project.folder)
    rows = json.loads(strom("views", "versions", "shop", "-p", folder, "--json").stdout)
    assert [row["state"] for row in rows] == ["active", "ready", "building"]
    shop = next(
        row
        for row in json.loads(strom("views", "list", "-p", folder, "--json").stdout)
        if row["name"] == "shop"
    )
    assert shop["versions"] == [
        {"version": 1, "state": "active"},
        {"version": 2, "state": "ready"},
        {"version": 3, "state": "building"},
    ]
    assert "1 active, 2 ready, 3 building" in strom("views", "list", "-p", folder).stdout


def test_queries_can_be_switched_to_a_ready_version_and_to_no_unfinished_one(strom, project):
    folder = str(project.folder)
    refused = strom("views", "rollback", "shop", "--to", "3", "-p", folder)
    assert refused.exit_code == 1
    assert "Version 3 of view shop is still building" in refused.stderr
    assert strom("views", "rollback", "shop", "--to", "2", "-p", folder).exit_code == 0
    assert project.manifests.existing("shop").active == 2


def test_a_version_that_is_being_computed_cannot_be_dropped(strom, project):
    drop = ["views", "drop", "shop", "--version", "3", "--yes", "-p", str(project.folder)]
    with sole_builder(project.manifests, "shop"):
        refused = strom(*drop)
    assert refused.exit_code == 1
    assert "is being computed by a replay" in refused.stderr
    assert strom(*drop).exit_code == 0
    assert len(project.manifests.existing("shop").versions) == 2
