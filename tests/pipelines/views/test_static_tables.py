"""All layers of a version read its tables as they were when it was made, in folders of any name."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from strom.model.errors import UserError
from strom.pipelines import Table, View, count
from strom.pipelines.layers import compaction
from strom.pipelines.layers.compiled_views import compile_view
from strom.pipelines.project import Project, check_folder
from strom.pipelines.views.static_tables import kept, with_tables
from strom.pipelines.views.versions import definition_of
from tests.pipelines.shop import clicks, make_stream
from tests.pipelines.world import World, fresh_topic

NASTY = "Jörg's 100 % #1, {a} & b+c=d;e"
ONE_EACH = "page,kind\n/0,shop\n/1,shop\n/2,shop\n"
TWO_EACH = ONE_EACH + "/0,buy\n/1,buy\n/2,buy\n"


def kinds_of(stream):
    return View(
        reads=stream,
        prepare=lambda rows, pages: rows.join(pages, "page"),
        tables={"pages": Table("the pages.csv", schema="page STRING, kind STRING")},
        keys=["kind"],
        measures={"n": count()},
        name="kinds",
    )


def counted(world):
    rows = world.query("SELECT kind, n FROM kinds ORDER BY kind")
    return {row["kind"]: row["n"] for row in rows}


def test_a_changed_table_is_seen_by_no_layer_before_a_replay(
    spark, kafka_servers, tmp_path, monkeypatch
):
    """The folder's name has all that breaks paths: archive, batch, speed, compaction, query, replay."""
    monkeypatch.setattr(compaction, "plan", partial(compaction.plan, fan_in=2))
    folder = tmp_path / NASTY
    folder.mkdir()
    stream = make_stream(fresh_topic())
    (folder / "the pages.csv").write_text(ONE_EACH)
    project = Project(folder, views={"kinds": kinds_of(stream)})
    project = replace(project, settings=replace(project.settings, data="."))
    world = World(spark, kafka_servers, folder, stream, with_tables(project).views.values())
    try:
        speed = world.speed()
        for number in range(2):
            world.send(clicks(12, first=12 * number))
            speed.step()
            if number == 0:
                (folder / "the pages.csv").write_text(TWO_EACH)
        assert counted(world) == {"shop": 24}
        target = world.targets["kinds"]
        assert world.compactor.compact(target.feed.fold, target.number)
        assert counted(world) == {"shop": 24}
        world.archive()
        world.batch("kinds")
        assert counted(world) == {"shop": 24}, "a batch reads what the speed layer has read"
        changed = with_tables(project).views["kinds"]
        number = world.replay(changed)
        assert counted(world) == {"shop": 24, "buy": 24}
        old = world.manifests.existing("kinds").version(target.number)
        assert old.fingerprint != world.manifests.existing("kinds").version(number).fingerprint
        view = definition_of(world.manifests, "kinds", old, to_compute=True)
        world.targets["kinds"] = replace(target, feed=compile_view(spark, view, folder))
        world.batch("kinds")
        world.manifests.change("kinds", stream.topic, lambda one: one.switched_to(old.number))
        assert counted(world) == {"shop": 24}, "so does a version that was rolled back to"
    finally:
        world.close()


def test_a_missing_table_is_reported_with_its_place(tmp_path):
    view = kinds_of(make_stream("clicks"))
    with pytest.raises(
        UserError, match=r"test_static_tables\.py:\d+: Table the pages\.csv: there are"
    ):
        with_tables(Project(tmp_path, views={"kinds": view}))


@pytest.mark.parametrize("name", ["a[1]", "a*", "50%20", "a\\b"])
def test_a_folder_that_cannot_hold_data_is_refused(tmp_path, name):
    with pytest.raises(UserError, match="Rename the folder"):
        check_folder(tmp_path / name / "data")
    check_folder(tmp_path / NASTY / "data")


@pytest.mark.parametrize("pattern", ["kinds/*.csv", "../shared/*.csv", "{}/shared/*.csv"])
def test_a_table_can_be_a_pattern_of_files_anywhere(tmp_path, pattern):
    folder = tmp_path / "shop"
    for place in (folder / "kinds", tmp_path / "shared"):
        place.mkdir(parents=True)
        (place / "pages.csv").write_text(ONE_EACH)
    table = Table(pattern.format(tmp_path), schema="page STRING, kind STRING")
    copied = kept(table, Project(folder))
    assert [path.read_text() for path in Path(copied.copy).rglob("*.csv")] == [ONE_EACH]
