"""Writes docs/reference/ from the code: commands, settings, api keys, error codes, connectors.

`python -m tools.reference` writes the pages; a test fails while a committed page is stale.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from strom.metrics.catalogue import SUBSYSTEMS
from strom.model.broker_settings import BrokerSettings
from strom.model.client_metrics_settings import ClientMetricsSettings
from strom.model.errors import ErrorCode
from strom.model.group_settings import GroupSettings
from strom.model.settings import INT_MAX, LONG_MAX, Definition
from strom.model.topic_settings import TopicSettings
from strom.server.kafka import handlers
from strom.server.kafka.api import HANDLERS
from tools import reference_of_commands, reference_of_connect

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTICE = "<!-- Written by `make docs` from the code. Do not edit. -->\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _bounds(definition: Definition) -> str:
    if definition.choices:
        return ", ".join(f"`{choice}`" for choice in definition.choices)
    low, high = definition.minimum, definition.maximum
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at least {low}" if low is not None else ""


def _default(definition: Definition) -> str:
    text = definition.documented_default
    names = {str(LONG_MAX): "never (2⁶³ - 1)", str(INT_MAX): "2³¹ - 1", "": "(empty)"}
    return names.get(text, f"`{text}`")


def topic_settings() -> str:
    """The page on topic settings."""
    rows = [
        (
            f"`{definition.name}`",
            _default(definition),
            _bounds(definition),
            definition.doc,
            f"`{definition.broker_name}`",
        )
        for definition in TopicSettings.definitions().values()
    ]
    return (
        f"{NOTICE}\n# Topic settings\n\nSet one with `strom topics create NAME -c name=value` or "
        "`strom topics alter NAME name=value`. The last column names the broker setting that gives "
        "every topic its default.\n\n"
        + _table(("setting", "default", "allowed", "what it does", "broker default"), rows)
    )


def group_settings() -> str:
    """The page on group settings."""
    rows = [
        (
            f"`{definition.name}`",
            _default(definition),
            _bounds(definition),
            definition.doc,
            f"`{definition.broker_name}`" if definition.broker_name else "",
        )
        for definition in GroupSettings.definitions().values()
    ]
    return (
        f"{NOTICE}\n# Group settings\n\nSet one with Kafka's admin calls for resources of the type "
        "`GROUP`, such as `kafka-configs --entity-type groups`. The last column names the broker setting "
        "that gives every group its default.\n\n"
        + _table(("setting", "default", "allowed", "what it does", "broker default"), rows)
    )


def client_metrics_settings() -> str:
    """The page on client metrics subscriptions."""
    rows = [
        (f"`{definition.name}`", _default(definition), definition.doc)
        for definition in ClientMetricsSettings.definitions().values()
    ]
    return (
        f"{NOTICE}\n# Settings of client metrics subscriptions\n\nSet one with "
        "`kafka-client-metrics.sh --alter`, or Kafka's admin calls for resources of the type "
        "`CLIENT_METRICS`. They take effect where `client.telemetry.enable` is true.\n\n"
        + _table(("setting", "default", "what it does"), rows)
    )


def broker_settings() -> str:
    """The page on broker settings."""
    rows = [
        (
            f"`{definition.name}`",
            _default(definition),
            _bounds(definition),
            definition.doc,
            "yes" if definition.live else "no",
        )
        for definition in BrokerSettings.definitions().values()
    ]
    return (
        f"{NOTICE}\n# Broker settings\n\nSet one with `strom start --set name=value`. Those that can "
        "be changed while the broker runs take Kafka's admin calls too.\n\n"
        + _table(("setting", "default", "allowed", "what it does", "at run time"), rows)
    )


def project_settings() -> str:
    """The page on strom.toml."""
    from strom.pipelines.settings import ProjectSettings

    rows = [
        (
            f"`{definition.name}`",
            _connect_default(definition),
            _bounds(definition),
            definition.doc,
        )
        for definition in ProjectSettings.definitions().values()
    ]
    return (
        f"{NOTICE}\n# Project settings\n\nThey stand in `strom.toml`, which `strom init` writes. A dot "
        "in a name is a table there: `kafka.port` is `port` under `[kafka]`.\n\n"
        + _table(("setting", "default", "allowed", "what it does"), rows)
    )


def api_keys() -> str:
    """The page on the requests that are answered."""
    handlers.load()
    rows = [
        (
            str(key),
            handler.name,
            f"{handler.versions.first} to {handler.versions.last}",
            ", ".join(f"{need.operation.name} on {need.resource.name}" for need in handler.needs),
        )
        for key, handler in sorted(HANDLERS.items())
    ]
    return (
        f"{NOTICE}\n# Kafka requests that are answered\n\nWhat ApiVersions advertises is built from the "
        "same table. The last column is what Kafka's ACLs check.\n\n"
        + _table(("api key", "request", "versions", "needs"), rows)
    )


def error_codes() -> str:
    """The page on error codes."""
    rows = [
        (str(code.value), code.name, "yes" if code.retriable else "no", code.text)
        for code in ErrorCode
    ]
    return f"{NOTICE}\n# Error codes\n\n" + _table(("code", "name", "retry", "meaning"), rows)


def metrics() -> str:
    """The page on metrics."""
    parts = [
        f"{NOTICE}\n# Metrics\n\nWhat processes of strom expose at `/metrics`; how to scrape them is in "
        "[metrics.md](../metrics.md). The last column is the name of the same in Kafka, where there is "
        "one. A histogram is queried as `NAME_bucket`, `NAME_sum` and `NAME_count`. Every process has "
        "the `process_`, `python_` and `python_gc_` metrics of all Python programs, too.\n"
    ]
    for title, tables in SUBSYSTEMS.items():
        rows = [
            (
                f"`{metric.exposed_name}`",
                metric.kind,
                ", ".join(f"`{label}`" for label in table.labels),
                metric.doc,
                metric.jmx,
            )
            for table in tables
            for metric in table.metrics
        ]
        parts.append(
            f"## {title}\n\n" + _table(("metric", "kind", "labels", "meaning", "Kafka"), rows)
        )
    return "\n".join(parts)


def commands() -> str:
    """The page on the command line."""
    return f"{NOTICE}\n{reference_of_commands.commands()}"


def converters() -> str:
    """The page on Connect's converters."""
    return f"{NOTICE}\n{reference_of_connect.converters(_table)}"


def transforms() -> str:
    """The page on Connect's transforms."""
    return f"{NOTICE}\n{reference_of_connect.transforms(_table)}"


def connect() -> str:
    """The page on the settings of Connect: workers, what every connector has, and each kind."""
    from strom.connect.plugins import BUILT_IN
    from strom.connect.runtime.settings import CommonSettings, SinkSettings, SourceSettings
    from strom.connect.runtime.settings import WorkerSettings as Worker

    common = set(CommonSettings.definitions())
    parts = [
        f"{NOTICE}\n# Settings of Connect\n\nA worker's are set with `strom connect worker --set "
        "name=value`, a connector's with `strom connect add NAME name=value`.\n",
        _connect_table("Workers", Worker.definitions().values()),
        _connect_table("Every connector", CommonSettings.definitions().values()),
    ]
    for title, cls in (("Every source", SourceSettings), ("Every sink", SinkSettings)):
        own = [one for name, one in cls.definitions().items() if name not in common]
        parts.append(_connect_table(title, own))
    for plugin in BUILT_IN:
        try:
            loaded = plugin.load()
        except ImportError:
            continue
        definitions = loaded.settings_class.definitions().values()
        doc = plugin.doc
        if plugin.aliases:
            doc += f" Also known as {', '.join(f'`{name}`' for name in plugin.aliases)}."
        parts.append(_connect_table(plugin.name, definitions, doc))
    return "\n".join(parts)


def _connect_table(title: str, definitions: Iterable[Definition], doc: str = "") -> str:
    rows = [
        (
            f"`{one.name}`",
            _connect_default(one),
            _bounds(one),
            one.doc,
        )
        for one in definitions
    ]
    text = f"## {title}\n\n" + (f"{doc}\n\n" if doc else "")
    return text + _table(("setting", "default", "allowed", "what it does"), rows)


def _connect_default(definition: Definition) -> str:
    if getattr(definition, "required", False):
        return "required"
    return "" if definition.default in (None, ()) else _default(definition)


PAGES = {
    "commands.md": commands,
    "connect.md": connect,
    "topic-settings.md": topic_settings,
    "group-settings.md": group_settings,
    "client-metrics-settings.md": client_metrics_settings,
    "broker-settings.md": broker_settings,
    "project-settings.md": project_settings,
    "api-keys.md": api_keys,
    "error-codes.md": error_codes,
    "metrics.md": metrics,
    "converters.md": converters,
    "transforms.md": transforms,
}


def main() -> int:
    """Write every page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
