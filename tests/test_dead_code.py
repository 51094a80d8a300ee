"""Nothing is kept that no program uses: what only tests call is dead too."""

from fnmatch import fnmatch
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).resolve().parent.parent
USERS = ("src", "benchmarks", "tools", "examples")
KINDS = {"class", "function", "method", "property"}
"""Variables are left out: fields of messages, settings and enums are used by name."""
DECORATORS = ["@handler", "@click.*", "@*.command", "@*.group"]
USED_FROM_OUTSIDE = {
    "src/strom/connect/connectors/*": "connectors are loaded by name",
    "src/strom/connect/converters/*": "converters are loaded by name",
    "src/strom/connect/transforms/*": "transforms are loaded by name",
    "src/strom/testing/*": "users' tests call it",
    "src/strom/wire/*/m*/*": "messages are found by api key or class and method id",
    "*:connection_made": "asyncio calls it",
    "*:get_buffer": "asyncio calls it",
    "*:get_code": "importlib calls it",
    "*:buffer_updated": "asyncio calls it",
    "*:eof_received": "asyncio calls it",
    "*:pause_writing": "asyncio calls it",
    "*:resume_writing": "asyncio calls it",
    "*:__init_subclass__": "Python calls it",
    "*:format_commands": "click calls it",
    "*:collect": "prometheus_client calls it",
    "src/strom/http/protocol.py:*": "uvicorn calls it",
    "src/strom/metrics/catalogue.py:*": "the dashboards' test compares names with it",
    "src/strom/queues/*:*live_before": "tests compare it with a model",
    "src/strom/wire/amqp/*:encode_*": "the inverse of decoding; tests speak as clients with it",
    "src/strom/pipelines/serving/partials.py:*": "views on DuckDB alone need it; its law is tested",
}


def test_no_code_is_dead():
    vulture = Vulture(ignore_decorators=DECORATORS)
    vulture.scavenge([str(ROOT / folder) for folder in USERS])
    found = []
    for item in vulture.get_unused_code():
        path = Path(item.filename).relative_to(ROOT)
        if path.parts[0] != "src" or item.typ not in KINDS:
            continue
        names = (str(path), f"{path}:{item.name}")
        if not any(fnmatch(name, pattern) for name in names for pattern in USED_FROM_OUTSIDE):
            found.append(f"{path}:{item.first_lineno}: {item.typ} {item.name}")
    assert found == []
