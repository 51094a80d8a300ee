"""Which changes of a project are changes of a view, and which are not."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from strom.model.errors import UserError
from strom.pipelines.offsets import TopicOffsets
from strom.pipelines.project import load_project
from strom.pipelines.runner import check_definitions
from strom.pipelines.views.fingerprints import adopt, fingerprint, is_made_by
from strom.pipelines.views.legacy_fingerprint import legacy_fingerprint
from strom.pipelines.views.manifests import Version
from strom.pipelines.views.static_tables import sweep_tables, with_tables

VIEWS = '''
import datetime
import decimal
import enum
import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pyspark.sql.functions import udf

import pricing
from pricing import Discount, doubled, logged
from strom.pipelines import Stream, Table, View, count

LIMIT = 5
RATES = {"EUR": decimal.Decimal("1.10"), "USD": decimal.Decimal("1")}
COUNTRIES = {"de", "fr"}
SINCE = datetime.date(2026, 1, 1)
MARK = b"x1"
ARRAY = np.array([1, 2])
FRAME = pd.DataFrame({"a": [1, 2]})


class Kind(enum.Enum):
    SHOP = "shop"


@dataclass
class Bounds:
    low: int = 1

    def above(self, column):
        return column > self.low


BOUNDS = Bounds()


def times(factor):
    def multiplied(ms):
        return ms * factor

    return multiplied


THRICE = times(3)


@udf("int")
def plus(ms):
    return ms + 1


@functools.cache
def cached():
    return 17


def circular(n):
    return n and other(n - 1)


def other(n):
    return n and circular(n - 1)


@logged
def slow(rows, pages, least=2):
    """Slow rows."""
    found = rows.where(rows.ms > LIMIT).where(BOUNDS.above(rows.ms))  # slow
    use = (RATES.get, COUNTRIES, SINCE, MARK, ARRAY, FRAME, Kind.SHOP, THRICE, plus, cached, circular)
    first, second = lambda x: x + 1, lambda x: x + 2
    found = found.where(pricing.rate(rows.ms) > 0).where(doubled(rows.ms) > Discount().off)
    return found.join(pages, "page")


clicks = Stream("clicks", schema="page STRING, ms INT, at TIMESTAMP", time="at")
pages = View(
    reads=clicks,
    prepare=slow,
    tables={"pages": Table("pages.csv", schema="page STRING")},
    keys=["page"],
    measures={"n": count()},
)
'''
PRICING = """
import functools
import deep

BASE = 3


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def doubled(ms):
    return ms * 2


def rate(ms):
    return deep.rounded(ms * BASE)


def unused():
    return 1


class Discount:
    off = 1
"""
DEEP = """
def rounded(x):
    return round_down(x) + 0


def round_down(x):
    return x - x % 10
"""
FILES = {
    "strom.toml": 'name = "shop"\n',
    "views.py": VIEWS,
    "pricing.py": PRICING,
    "deep.py": DEEP,
    "pages.csv": "page\n/cart\n",
}


def write(folder, **changed):
    folder.mkdir(exist_ok=True)
    for name, text in {**FILES, **changed}.items():
        (folder / name).write_text(text)
    return folder


def loaded(folder, monkeypatch):
    # Python looks at whole seconds and sizes to find out whether a file has changed.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return with_tables(load_project(folder))


RECOGNISED = [
    ("views.py", "LIMIT = 5", "LIMIT = 6"),
    ("views.py", "rows.ms > LIMIT", "rows.ms >= LIMIT"),
    ("views.py", '"1.10"', '"1.11"'),
    ("views.py", '{"de", "fr"}', '{"de", "it"}'),
    ("views.py", "datetime.date(2026, 1, 1)", "datetime.date(2026, 1, 2)"),
    ("views.py", 'b"x1"', 'b"x2"'),
    ("views.py", "np.array([1, 2])", "np.array([1, 3])"),
    ("views.py", '{"a": [1, 2]}', '{"a": [1, 3]}'),
    ("views.py", 'SHOP = "shop"', 'SHOP = "buy"'),
    ("views.py", "low: int = 1", "low: int = 2"),
    ("views.py", "return column > self.low", "return column >= self.low"),
    ("views.py", "times(3)", "times(4)"),
    ("views.py", "return ms * factor", "return ms + factor"),
    ("views.py", "return ms + 1", "return ms + 2"),
    ("views.py", '@udf("int")', '@udf("bigint")'),
    ("views.py", "return 17", "return 18"),
    ("views.py", "circular(n - 1)", "circular(n - 2)"),
    ("views.py", "least=2", "least=3"),
    ("views.py", "lambda x: x + 2", "lambda x: x + 3"),
    ("views.py", "count()", "count('ms')"),
    ("pricing.py", "ms * 2", "ms * 3"),
    ("pricing.py", "BASE = 3", "BASE = 4"),
    ("pricing.py", "return function(*args, **kwargs)", "return function(*args)"),
    ("pricing.py", "off = 1", "off = 2"),
    ("deep.py", "x - x % 10", "x - x % 100"),
    ("pages.csv", "/cart", "/help"),
]
NOT_RECOGNISED = [
    ("views.py", "# slow", "# really slow"),
    ("views.py", '"""Slow rows."""', '"""Rows that are slow."""'),
    ("views.py", "rows.where(rows.ms > LIMIT)", "rows.where(\n        (rows.ms > LIMIT),\n    )"),
    ("views.py", "def times(factor):", "def times(factor: int):"),
    (
        "views.py",
        "def slow(rows, pages, least=2):",
        "def slow(rows, pages, least: int = 2) -> list:",
    ),
    ("views.py", "low: int = 1", "low: float = 1"),
    (
        "views.py",
        '{"EUR": decimal.Decimal("1.10"), "USD": decimal.Decimal("1")}',
        '{"USD": decimal.Decimal("1"), "EUR": decimal.Decimal("1.10")}',
    ),
    ("views.py", '{"de", "fr"}', '{"fr", "de"}'),
    ("views.py", "\nLIMIT = 5", "\nUNUSED = 7\nLIMIT = 5"),
    ("pricing.py", "def unused():\n    return 1", "def unused():\n    return 2"),
]


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return fingerprint(loaded(write(tmp_path_factory.mktemp("before")), patch).views["pages"])


@pytest.mark.parametrize(("file", "old", "new"), RECOGNISED)
def test_a_change_of_what_is_executed_is_recognised(tmp_path, monkeypatch, before, file, old, new):
    assert old in FILES[file]
    folder = write(tmp_path / "shop", **{file: FILES[file].replace(old, new)})
    assert fingerprint(loaded(folder, monkeypatch).views["pages"]) != before


@pytest.mark.parametrize(("file", "old", "new"), NOT_RECOGNISED)
def test_what_changes_nothing_is_not_taken_for_a_change(
    tmp_path, monkeypatch, before, file, old, new
):
    assert old in FILES[file]
    folder = write(tmp_path / "shop", **{file: FILES[file].replace(old, new)})
    assert fingerprint(loaded(folder, monkeypatch).views["pages"]) == before


def test_a_fingerprint_is_the_same_in_another_process_and_with_other_bytecode(tmp_path, before):
    """Texts have other hashes there, and sets another order."""
    folder = write(tmp_path / "shop")
    script = (
        "import sys; from strom.pipelines.project import load_project; "
        "from strom.pipelines.views.fingerprints import fingerprint; "
        "from strom.pipelines.views.static_tables import with_tables; "
        "print(fingerprint(with_tables(load_project(sys.argv[1])).views['pages']))"
    )
    command = [sys.executable, "-X", "no_debug_ranges", "-c", script, str(folder)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.strip() == before


@pytest.mark.parametrize(
    ("used", "message"),
    [
        ("threading.Lock()", "uses USED, a lock"),
        ("eval('lambda rows: rows')", "source of <lambda> .* is not in a file"),
        ("(one for one in [])", "uses USED, a generator"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(tmp_path, monkeypatch, used, message):
    views = f"""
        import threading
        from strom.pipelines import Stream, View

        USED = {used}


        def prepare(rows):
            return rows if USED else rows


        v = View(reads=Stream("clicks", schema="ms INT"), prepare=prepare)
    """
    folder = write(tmp_path / "shop", **{"views.py": textwrap.dedent(views)})
    with pytest.raises(UserError, match=rf"views\.py:\d+: View v: .*{message}"):
        fingerprint(loaded(folder, monkeypatch).views["v"])


def test_lambdas_on_one_line_are_told_apart(tmp_path, monkeypatch):
    views = """
        from strom.pipelines import Stream, View
        s = Stream("clicks", schema="ms INT")
        one, other = lambda r: r.where("ms > 1"), lambda r: r.where({text!r})
        a, b = View(reads=s, prepare=one), View(reads=s, prepare=other)
    """
    made = {}
    for text in ("ms > 2", "ms > 3"):
        written = textwrap.dedent(views).replace("{text!r}", repr(text))
        folder = write(tmp_path / "shop", **{"views.py": written})
        views_now = loaded(folder, monkeypatch).views
        made[text] = [fingerprint(views_now[name]) for name in ("a", "b")]
    one, other = made.values()
    assert one[0] == other[0]
    assert one[1] != other[1]


def versions_of(project, name, made):
    """What 0.1.0 has left of a view."""
    view = project.views[name]
    version = Version(
        1, made, "n = count() by page", (), TopicOffsets((0,)), 0, "v1/identity.parquet"
    )
    project.manifests.version_folder(name, 1).mkdir(parents=True)
    project.manifests.change(
        name, view.stream.topic, lambda one: one.with_version(version).switched_to(1)
    )


def test_a_version_of_the_first_release_is_recognised_and_then_watched(tmp_path, monkeypatch):
    folder = write(tmp_path / "shop")
    project = loaded(folder, monkeypatch)
    legacy = legacy_fingerprint(project.views["pages"])
    versions_of(project, "pages", legacy)
    assert check_definitions(project) == [], "an unchanged definition needs no replay"
    version = project.manifests.existing("pages").version(1)
    assert version.fingerprint == fingerprint(project.views["pages"]) != legacy
    write(tmp_path / "shop", **{"pages.csv": "page\n/help\n"})
    with pytest.raises(UserError, match="strom replay pages"):
        check_definitions(loaded(folder, monkeypatch))


def test_the_fingerprints_of_the_first_release_have_not_changed(tmp_path, monkeypatch):
    """Computed by 0.1.0 for the same file."""
    views = """
        from strom.pipelines import Stream, View, count, mean, window

        LIMIT = 5


        def slow(rows):
            return rows.where(rows.ms > LIMIT)


        clicks = Stream("clicks", schema="page STRING, ms INT, at TIMESTAMP", time="at")
        pages = View(
            reads=clicks, prepare=slow, columns={"b": "ms + 1", "a": "ms"}, where="ms > 0",
            keys=[window("1 minute"), "page"], measures={"n": count(), "m": mean("ms")},
        )
    """
    folder = write(tmp_path / "shop", **{"views.py": textwrap.dedent(views)})
    view = loaded(folder, monkeypatch).views["pages"]
    assert legacy_fingerprint(view) == "d5ae9657c1d4623a"
    version = Version(1, "d5ae9657c1d4623a", "", (), TopicOffsets(), 0, "")
    assert is_made_by(version, view)


def test_modules_of_strom_that_were_renamed_change_no_fingerprint(tmp_path, monkeypatch):
    """Computed by 0.1.1 for the same file, when `measure` was in `measures/own.py`."""
    views = """
        from strom.pipelines import Stream, View, count, measure

        clicks = Stream("clicks", schema="ms INT")
        doubled = measure(partial={"s": "sum(ms)"}, merge={"s": "sum(s)"}, finish="2 * s")
        totals = View(reads=clicks, measures={"doubled": doubled})


        def prepare(rows):
            return rows.select(*totals.measures, measure.__name__)


        slow = View(reads=clicks, prepare=prepare, measures={"n": count()})
    """
    folder = write(tmp_path / "shop", **{"views.py": textwrap.dedent(views)})
    assert fingerprint(loaded(folder, monkeypatch).views["slow"]) == (
        "2:8c3781170779c3e4618a4482e45fb2b0"
    )


def test_copies_of_tables_go_with_the_versions_that_name_them(tmp_path, monkeypatch):
    project = loaded(write(tmp_path / "shop"), monkeypatch)
    versions_of(project, "pages", legacy_fingerprint(project.views["pages"]))
    adopt(project.manifests, project.views["pages"], project.manifests.existing("pages").version(1))
    kept = project.views["pages"].tables["pages"]
    stored = json.loads(
        (project.manifests.version_folder("pages", 1) / "definition.json").read_text()
    )
    assert stored["tables"]["pages"]["content"] == kept.content
    assert "copy" not in stored["tables"]["pages"], "a project may be moved"
    write(tmp_path / "shop", **{"pages.csv": "page\n/other\n"})
    newer = loaded(tmp_path / "shop", monkeypatch).views["pages"].tables["pages"]
    (project.data / "tables" / newer.content / "pages.csv").write_text("cut off")
    assert loaded(tmp_path / "shop", monkeypatch).views["pages"].tables["pages"] == newer
    copied = project.data / "tables" / newer.content / "pages.csv"
    assert copied.read_text() == "page\n/other\n", "a damaged copy is made again"
    assert sweep_tables(project) == 0, "one that is not named yet may be in use"
    assert sweep_tables(project, unused_s=0) == 1
    names = [path.name for path in (project.data / "tables").iterdir()]
    assert names == [kept.content] != [newer.content]


COLLECTED = """
    import enum
    from collections import namedtuple
    from pathlib import Path
    from strom.pipelines import Stream, View

    Status = enum.Enum("Status", "OPEN PAID SENT")
    Pair = namedtuple("Pair", "low high")


    class Kind(enum.Enum):
        A = 1
        B = 2
        C = 3
        D = 4


    class Rates:
        base = int(Path(__file__).with_name("rate.txt").read_text())


    KINDS = {Kind.A, Kind.B, Kind.C, Kind.D}
    SEEN = {}


    def prepare(rows):
        import late

        SEEN["rows"] = late.LIMIT
        limits = Pair(Rates.base, len(KINDS) + len(list(Status)))
        return rows.where(f"ms BETWEEN {limits.low} AND {limits.high}")


    v = View(reads=Stream("clicks", schema="ms INT"), prepare=prepare)
"""


def write_collected(folder, rate):
    views = textwrap.dedent(COLLECTED)
    return write(folder, **{"views.py": views, "rate.txt": rate, "late.py": "LIMIT = 1"})


def test_a_set_of_enum_members_is_the_same_with_other_hashes(tmp_path):
    folder = write_collected(tmp_path / "shop", "1")
    script = (
        "import sys; from strom.pipelines.project import load_project; "
        "from strom.pipelines.views.fingerprints import fingerprint; "
        "print(fingerprint(load_project(sys.argv[1]).views['v']))"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", script, str(folder)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(made) == 1


def test_a_value_that_a_class_has_computed_is_recognised(tmp_path, monkeypatch):
    made = [
        fingerprint(loaded(write_collected(tmp_path / "shop", rate), monkeypatch).views["v"])
        for rate in ("1", "2")
    ]
    assert made[0] != made[1]


def test_what_prepare_changes_when_it_is_executed_is_no_change_of_it(tmp_path, monkeypatch):
    class Rows:
        def where(self, text):
            return self

    folder = write_collected(tmp_path / "shop", "1")
    view = loaded(folder, monkeypatch).views["v"]
    before = fingerprint(view)
    monkeypatch.syspath_prepend(str(folder))
    view.prepare(Rows())
    assert fingerprint(view) == before
    sys.modules.pop("late")
