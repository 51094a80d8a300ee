"""Rules of the house that no linter knows."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
OWN = sorted(
    path
    for folder in ("src", "tests", "tools", "benchmarks", "docs", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".toml", ".xml", ".txt", ".sha256"} and path.is_file()
)
BANNED_NAMES = {"utils", "util", "common", "core", "helpers", "helper", "manager", "misc"}
MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 70


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_there_is_something_to_check():
    assert len(SOURCES) > 50


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_modules_are_of_one_idea(path):
    assert path.stem not in BANNED_NAMES, "name it after what it does"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_fit_on_a_screen(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MAX_FUNCTION_LINES, f"{node.name} has {lines} lines"


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.name == "__init__.py"], ids=relative
)
def test_packages_only_export(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node for node in tree.body if isinstance(node, ast.ClassDef)]


def test_no_file_names_a_registry_or_a_machine():
    forbidden = re.compile(
        r"--(extra-)?index-url|\"resolved\":|pypi\.org/simple|repo1\.maven|/home/\w+/|/root/"
    )
    found = [
        relative(path)
        for path in OWN
        if path != Path(__file__) and forbidden.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_only_one_module_touches_the_disk():
    offenders = [
        relative(path)
        for path in SOURCES
        if relative(path).startswith("src/strom/storage/")
        and path.name != "files.py"
        and re.search(
            r"^(import os|from os|import pathlib|from pathlib)", path.read_text("utf-8"), re.M
        )
    ]
    assert offenders == []
