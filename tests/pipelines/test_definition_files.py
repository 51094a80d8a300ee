"""Which files of a project are loaded: those that define views, and no script beside them."""

import json

import pytest

from strom.model.errors import UserError
from strom.pipelines import load_project

VIEWS = """
from strom.pipelines import Stream, View, count

clicks = Stream("clicks", schema="page STRING")
pages = View(reads=clicks, keys=["page"], measures={"n": count()})
"""
SQL = """
CREATE STREAM orders (item STRING);
CREATE VIEW items AS SELECT item, count(*) AS n FROM orders GROUP BY item;
"""
PRODUCER = "from pathlib import Path\n(Path(__file__).parent / 'sent').write_text('again')\n"


@pytest.fixture
def folder(tmp_path):
    def write(settings="", **files):
        (tmp_path / "strom.toml").write_text(settings)
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_py", ".py").replace("_sql", ".sql")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def test_scripts_beside_the_definitions_are_not_executed(folder):
    made = folder(views_py=VIEWS, orders_sql=SQL, producer_py=PRODUCER, consumer_py="input()\n")
    assert list(load_project(made).views) == ["pages", "items"]
    assert not (made / "sent").exists()


def test_the_named_files_are_loaded_and_no_others(folder):
    settings = '[project]\nfiles = ["shop.py", "more/orders.sql"]'
    made = folder(settings, shop_py=VIEWS, more__orders_sql=SQL, views_py=PRODUCER, other_sql="?")
    assert list(load_project(made).views) == ["pages", "items"]
    assert not (made / "sent").exists()


def test_definitions_may_import_modules_beside_them(folder):
    made = folder(views_py="from definitions import clicks, pages\n", definitions_py=VIEWS)
    assert list(load_project(made).views) == ["pages"]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["../views.py"], r"project\.files: \.\./views\.py is outside of the project's folder"),
        (["/etc/hosts.py"], "is outside of the project's folder"),
        (["nothing.py"], "nothing.py does not exist"),
        (["notes.txt"], "notes.txt is neither a .py nor a .sql file"),
        (["views.py", "more/views.py"], "names 2 files views.py"),
    ],
)
def test_files_that_cannot_define_views_are_refused(folder, files, reason):
    settings = f"[project]\nfiles = {json.dumps(files)}"
    made = folder(settings, views_py=VIEWS, more__views_py=VIEWS)
    (made.parent / "views.py").write_text(VIEWS)
    with pytest.raises(UserError, match=reason):
        load_project(made)


def test_a_project_of_strom_0_1_0_gets_a_list_of_files_that_are_not_loaded(folder):
    made = folder(orders_py=VIEWS, test_orders_py="", _private_py="")
    with pytest.raises(UserError, match=r"defines a view\. Not loaded: orders\.py\. .*\[project\]"):
        load_project(made)
    folder(views_py=VIEWS.replace("pages =", "other ="))
    loaded = load_project(made)
    with pytest.raises(UserError, match=r"a view 'pages'\. .* Not loaded: orders\.py"):
        loaded.defined_view("pages")
    for name in ("pages", "other", "clicks_dead_letters"):
        path = loaded.manifests.view_folder(name) / "manifest.json"
        path.parent.mkdir(parents=True)
        path.write_text(
            json.dumps({"view": name, "topic": "clicks", "versions": [], "retired": []})
        )
    assert loaded.undefined_views == ["pages"]
