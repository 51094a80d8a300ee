"""The page about Connect: its example connector works, and its laws are run."""

import re
from pathlib import Path

from strom.connect.runtime.assignment import Unit
from strom.testing.connectors import SourceDriver

PAGE = (Path(__file__).parents[2] / "docs/connect.md").read_text(encoding="utf-8")


def examples():
    names = {"__name__": "docs_connect"}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(example, "connect.md", "exec"), names)
    return names


def test_the_example_counts_and_goes_on_where_it_was():
    names = examples()
    first = SourceDriver(names["Counting"], {"topic": "numbers", "last": "5"})
    first.start()
    assert [record.value for record in first.read(5)] == [1, 2, 3, 4, 5]
    first.stop()
    second = SourceDriver(names["Counting"], {"topic": "numbers", "last": "7"}, first.offsets)
    second.start()
    assert [record.value for record in second.read(2)] == [6, 7]
    second.stop()


def test_the_laws_of_the_page_hold(tmp_path):
    laws = examples()["TestCounting"]()
    for number, law in enumerate(
        ("test_what_is_there_comes_out_once_and_in_order", "test_stop_ends_a_poll_that_waits")
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        getattr(laws, law)(folder)


def test_a_unit_is_shown_as_people_write_it():
    assert str(Unit("lines", 2)) == "lines-2"
    assert str(Unit("lines")) == "lines"
