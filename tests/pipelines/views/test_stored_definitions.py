"""Definitions beside what was computed by them: JSON for all, code only for who computes."""

import json

import pytest

from strom import pipelines as p
from strom.model.errors import UserError
from strom.pipelines.views import stored_definitions as stored
from tests.pipelines.oracle import EXACT, SCHEMA, SKETCHES, rolled_up

clicks = p.Stream("clicks", schema=SCHEMA, time="at")
LIMIT = 5


def slow(rows, pages):
    return rows.join(pages, "page").where(rows.ms > LIMIT)


minutes = p.View(
    reads=p.View(reads=clicks, where="ms > 0", columns={"half": "ms / 2"}, name="good"),
    prepare=slow,
    tables={"pages": p.Table("pages.csv", schema="page STRING")},
    expect={"quick": "ms < 1000"},
    keys=[p.window("1 hour", every="5 minutes"), "page"],
    measures={**EXACT, **SKETCHES},
    name="minutes",
)
VIEWS = {
    "with a function": minutes,
    "rows": p.View(reads=clicks, select=["page"], name="rows"),
    "a rollup": p.View(
        reads=minutes, keys=["window_start"], measures=rolled_up(EXACT), name="rolled"
    ),
    "avro": p.View(
        reads=p.Stream("a", format="avro", schema="registry", version=3), measures={"n": p.count()}
    ),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_a_definition_comes_back_as_it_was(tmp_path, kind):
    stored.store(VIEWS[kind], tmp_path)
    assert stored.load(tmp_path, to_compute=True) == VIEWS[kind]


def test_who_only_looks_runs_no_code(tmp_path):
    stored.store(minutes, tmp_path)
    (tmp_path / stored.FUNCTIONS).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    loaded = stored.load(tmp_path, to_compute=False)
    assert loaded.measures == minutes.measures
    with pytest.raises(UserError, match="without its functions"):
        loaded.prepare(None)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("strom.pipelines.measures.own", "OwnMeasure"),
        ("strom.pipelines.measures.own", "measure"),
        ("strom.pipelines.definitions.place", "Place"),
    ],
)
def test_functions_stored_by_0_1_1_refer_to_names_that_have_changed(tmp_path, module, name):
    stored.store(minutes, tmp_path)
    (tmp_path / stored.FUNCTIONS).write_bytes(f"(lc{module}\n{name}\na.".encode())
    assert callable(stored.load(tmp_path, to_compute=True).prepare)


def test_a_definition_without_functions_has_no_code(tmp_path):
    stored.store(VIEWS["rows"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [stored.DEFINITION]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"reads": {"stream": {"topic": 5}}}'])
def test_what_is_no_definition_is_reported_by_its_name(tmp_path, text):
    (tmp_path / stored.DEFINITION).write_text(text)
    with pytest.raises(UserError, match=r"definition\.json is not a definition"):
        stored.load(tmp_path, to_compute=False)
    (tmp_path / stored.DEFINITION).unlink()
    with pytest.raises(UserError, match="strom replay"):
        stored.load(tmp_path, to_compute=False)


def test_definitions_are_readable(tmp_path):
    stored.store(VIEWS["rows"], tmp_path)
    values = json.loads((tmp_path / stored.DEFINITION).read_text())
    assert values["reads"]["stream"]["topic"] == "clicks"
    assert values["select"] == ["page"]
