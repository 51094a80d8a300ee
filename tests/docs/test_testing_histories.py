"""The page about histories says what is so."""

import re
from pathlib import Path

from strom.testing.history import Anomaly

PAGE = (Path(__file__).parents[2] / "docs/testing-histories.md").read_text(encoding="utf-8")


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(example, "testing-histories.md", "exec"), {})


def test_every_anomaly_is_named():
    missing = [kind.value for kind in Anomaly if f"`{kind.value.removeprefix('int-')}`" not in PAGE]
    assert [name for name in missing if f"`{name}`" not in PAGE] == []
