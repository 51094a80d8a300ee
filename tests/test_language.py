"""How strom reads: the terms of the field, unique class names, docstrings that add to the name.

One test per rule, which lists all that break it.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from strom.pipelines.views.syntax import parse

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "strom"
MODULES = sorted(SOURCE.rglob("*.py"))
PROGRAMS = sorted(
    path for folder in ("tools", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
SUITES = sorted(
    path
    for folder in ("conformance*", "crash", "foreign", "fuzz", "history", "tools", "benchmarks")
    for path in (ROOT / "tests").glob(f"{folder}/**/*.py")
)
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))

PUBLIC = ("connect/api/", "testing/")
"""Packages that users import: their class names do not change, so they may repeat internal ones."""

PARAPHRASES = {
    r"told|tells?|telling": "respond, report, send, notify",
    r"anew": "again, recreate, restart, reset",
    r"once more": "again, retry",
    r"whoever|whomever": "the client, the caller, the user",
    r"whatever": "any, every, or rewrite",
    r"shall": "must, or the present tense",
    r"somebody|someone|anybody|anyone|nobody|everybody|everyone": "client, member, reader, no one else",
    r"share[sd]? out|sharing out|hand(ed|s|ing)? out": "assign",
    r"let(s|ting)? in": "authenticate, authorize",
    r"shut(s|ting)? out": "fence",
    r"(as|is|be|are|make it|becomes?) safe": "durable, flushed",
    r"came too late|out of place": "stale, conflict",
    r"on (its|their) way|under way": "in flight",
    r"not to be had|of days to come": "unsupported, unknown",
    r"are the most|is the most": "exceeds the limit of N",
    r"so-manieth": "n-th",
    r"surroundings": "context",
}
BANNED = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in PARAPHRASES), re.IGNORECASE)
ALLOWED = re.compile(r"(?:told|tells?|telling) apart|`[^`]*`")
"""Idioms of English, and code in texts."""


TEST = re.compile(r"\s*(?:async def|def|class) ((?:test_|Test)\w+)")


@cache
def parsed(path: Path) -> ast.Module:
    return parse(path.read_text("utf-8"))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every comment, and every string with a space (others are names, keys or wire values)."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    comment = re.compile(r"#\s(.*)")
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if match := comment.search(line):
            yield number, match[1]


def names_of_tests(path: Path) -> Iterator[tuple[int, str]]:
    """The names of a module's tests, as the sentences that they are."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if match := TEST.match(line):
            yield number, match[1].replace("_", " ")


def paraphrases(path: Path, found: Iterable[tuple[int, str]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}"
        for number, text in found
        for match in BANNED.finditer(ALLOWED.sub("", text))
    ]


def test_texts_keep_to_the_glossary():
    found = []
    for path in (*MODULES, *PROGRAMS, *SUITES):
        found += paraphrases(path, texts(path))
    assert found == []


def test_pages_keep_to_the_glossary():
    found = []
    for path in PAGES:
        lines = path.read_text("utf-8").splitlines()
        found += paraphrases(path, enumerate(lines, 1))
    assert found == []


def test_names_of_tests_keep_to_the_glossary():
    assert [found for path in TESTS for found in paraphrases(path, names_of_tests(path))] == []


def test_docstrings_say_more_than_a_name():
    nodes = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    short = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {text!r}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, nodes) and (text := ast.get_docstring(node)) and len(text.split()) <= 3
    ]
    assert short == []


def test_class_names_are_unique_outside_the_wire():
    """Public API keeps the names that it was released with."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        module = path.relative_to(SOURCE)
        if module.parts[0] == "wire" or str(module).startswith(PUBLIC):
            continue
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
