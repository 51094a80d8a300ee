"""Rules of the house that no linter knows."""

import ast
import re
from functools import cache
from pathlib import Path

from strom.pipelines.views.syntax import parse

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


@cache
def parsed(path: Path) -> ast.Module:
    return parse(path.read_text("utf-8"))


def test_there_is_something_to_check():
    assert len(SOURCES) > 50


def test_modules_are_named_after_what_they_do():
    assert [relative(path) for path in SOURCES if path.stem in BANNED_NAMES] == []


def test_modules_are_of_one_idea():
    lines = {relative(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    assert {name: count for name, count in lines.items() if count > MAX_MODULE_LINES} == {}


def test_functions_fit_on_a_screen():
    long = [
        f"{relative(path)}:{node.lineno}: {node.name} has {lines} lines"
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := node.end_lineno - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_packages_only_export():
    defined = [
        f"{relative(path)}:{node.lineno}: {node.name}"
        for path in SOURCES
        if path.name == "__init__.py"
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef)
    ]
    assert defined == []


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
