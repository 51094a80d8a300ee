"""How strom reads: the terms of the field, unique class names, docstrings that add to the name."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "strom"
SWEPT: tuple[str, ...] = (
    "app.py",
    "cli",
    "client",
    "connect/api",
    "connect/connectors/amqp",
    "connect/connectors/databases",
    "connect/connectors/files",
    "connect/connectors/lake",
    "connect/connectors/local_paths.py",
    "connect/connectors/mongo",
    "connect/connectors/plain_json.py",
    "connect/connectors/postgres_changes",
    "connect/connectors/record_template.py",
    "connect/connectors/sent_since_flush.py",
    "connect/connectors/web",
    "connect/converters",
    "connect/declared.py",
    "connect/logical_values.py",
    "connect/plugins.py",
    "connect/runtime",
    "connect/schema_cache.py",
    "connect/transforms",
    "pipelines/__init__.py",
    "http",
    "pipelines/data_folder.py",
    "pipelines/definitions",
    "pipelines/failures.py",
    "pipelines/freshness.py",
    "pipelines/kafka_log.py",
    "pipelines/layers",
    "pipelines/measurements.py",
    "pipelines/measures",
    "pipelines/offsets.py",
    "pipelines/outages.py",
    "pipelines/plan.py",
    "pipelines/preparation.py",
    "pipelines/project.py",
    "pipelines/project_code.py",
    "pipelines/runner.py",
    "pipelines/schemas.py",
    "pipelines/serving",
    "pipelines/set_aside.py",
    "pipelines/settings.py",
    "pipelines/spark",
    "pipelines/topic_identity.py",
    "pipelines/views",
    "registry/client.py",
    "registry/compatibility.py",
    "registry/configuring.py",
    "registry/content_parsing.py",
    "registry/deleting.py",
    "registry/formats",
    "registry/framing.py",
    "registry/records.py",
    "registry/refusals.py",
    "registry/registering.py",
    "registry/registry.py",
    "registry/rest",
    "registry/schemas_log.py",
    "registry/server.py",
    "registry/subjects.py",
    "broker/broker.py",
    "broker/configs.py",
    "broker/dead_letters.py",
    "broker/fetch_sessions.py",
    "broker/fetching.py",
    "broker/group_commit.py",
    "broker/groups.py",
    "broker/housekeeping.py",
    "broker/markers.py",
    "broker/metadata_log.py",
    "broker/replaying.py",
    "broker/schema_ids.py",
    "broker/share_fetching.py",
    "broker/share_groups.py",
    "broker/share_sessions.py",
    "broker/share_state_log.py",
    "broker/shared_partition.py",
    "broker/state_compaction.py",
    "broker/state_topic.py",
    "broker/topics.py",
    "broker/transactions.py",
    "coordination/__init__.py",
    "coordination/groups/classic",
    "coordination/groups/commands.py",
    "coordination/groups/consumer/assignors.py",
    "coordination/groups/consumer/classic_members.py",
    "coordination/groups/consumer/commands.py",
    "coordination/groups/consumer/group.py",
    "coordination/groups/consumer/membership.py",
    "coordination/groups/consumer/migration.py",
    "coordination/groups/consumer/protocol.py",
    "coordination/groups/consumer/reconciliation.py",
    "coordination/groups/consumer/records.py",
    "coordination/groups/consumer/requests.py",
    "coordination/groups/consumer/target.py",
    "coordination/groups/consumer/uniform.py",
    "coordination/groups/consumer/values.py",
    "coordination/groups/coordinator.py",
    "coordination/groups/log_format.py",
    "coordination/groups/offsets.py",
    "coordination/groups/outcome.py",
    "coordination/groups/pending_offsets.py",
    "coordination/groups/records.py",
    "coordination/groups/share",
    "coordination/groups/subscription.py",
    "coordination/groups/topics_image.py",
    "coordination/metadata",
    "coordination/schemas",
    "coordination/transactions",
    "model/broker_settings.py",
    "model/clock.py",
    "model/features.py",
    "model/group_settings.py",
    "model/http_settings.py",
    "model/share_settings.py",
    "model/topic_settings.py",
    "model/topics.py",
    "storage",
    "supervision",
    "testing",
    "wire",
    "queues",
    "broker/queues",
    "broker/partition.py",
    "coordination/groups/group.py",
    "metrics",
    "model/patterns.py",
    "model/retries.py",
    "model/settings.py",
    "model/tables.py",
    "model/errors.py",
    "server",
)
"""Folders and modules of `src/strom/` that keep to the glossary."""

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
ALLOWED = re.compile(r"told apart|tells? apart|`[^`]*`")
"""Idioms of English, and code in texts."""


def swept() -> list[Path]:
    found: list[Path] = []
    for name in SWEPT:
        path = SOURCE / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def texts(path: Path) -> list[tuple[int, str]]:
    """Every comment, and every string with a space (others are names, keys or wire values)."""
    text = path.read_text("utf-8")
    found = [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]
    comment = re.compile(r"#\s(.*)")
    for number, line in enumerate(text.splitlines(), 1):
        if match := comment.search(line):
            found.append((number, match[1]))
    return found


@pytest.mark.parametrize("path", swept(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_texts_keep_to_the_glossary(path):
    found = [
        f"{path.name}:{number}: {match[0]!r}"
        for number, text in texts(path)
        for match in BANNED.finditer(ALLOWED.sub("", text))
    ]
    assert found == []


PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CHANGELOG.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference"),
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_keep_to_the_glossary(path):
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    found = [
        f"{path.name}:{number}: {match[0]!r}"
        for number, line in lines
        for match in BANNED.finditer(ALLOWED.sub("", line))
    ]
    assert found == []


@pytest.mark.parametrize("path", swept(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_docstrings_say_more_than_a_name(path):
    nodes = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    short = [
        f"{path.name}:{node.lineno}: {text!r}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, nodes) and (text := ast.get_docstring(node)) and len(text.split()) <= 3
    ]
    assert short == []


def test_class_names_are_unique_outside_the_wire():
    """Public API keeps the names that it was released with."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE)
        if module.parts[0] == "wire" or str(module).startswith(PUBLIC):
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module))
    touched = {str(path.relative_to(SOURCE)) for path in swept()}
    repeated = {
        name: modules
        for name, modules in places.items()
        if len(modules) > 1 and touched.intersection(modules)
    }
    assert repeated == {}
