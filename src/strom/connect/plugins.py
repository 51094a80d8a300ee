"""The available connector classes: strom's own, and those of installed packages.

A package offers connectors through the entry point group `strom.connectors`: a short name and the
connector class. Others are named `module:class`, if the worker's setting `plugin.packages` lists their
package: otherwise a client that may create connectors could import any module on the path.
"""

import functools
import importlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeVar

from strom.connect.api import Connector, InvalidSettings, SinkConnector
from strom.connect.api.settings import did_you_mean

log = logging.getLogger(__name__)

ENTRY_POINTS = "strom.connectors"


def load_class(location: str) -> Any:
    """Import a class, given as `module:class`."""
    module, _, name = location.partition(":")
    return getattr(importlib.import_module(module), name)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def find_named(kinds: Mapping[str, N], name: str, setting: str, what: str) -> N:
    """What has this name or alias; InvalidSettings suggests the nearest."""
    if name in kinds:
        return kinds[name]
    available = ", ".join(dict.fromkeys(kind.name for kind in kinds.values()))
    hint = did_you_mean(name, kinds, f" Available: {available}.")
    raise InvalidSettings({setting: [f"Unknown {what} {name}.{hint}"]})


@dataclass(frozen=True)
class Plugin:
    """A connector class that is not imported yet."""

    name: str
    """Its value of `connector.class`."""
    kind: str
    """`source` or `sink`."""
    location: str
    """module:class"""
    doc: str
    aliases: tuple[str, ...] = ()
    """Aliases: the class names in users' existing configurations."""

    def load(self) -> type[Connector[Any]]:
        loaded: type[Connector[Any]] = load_class(self.location)
        return loaded


def _own(name: str, module: str, doc: str, *aliases: str) -> Plugin:
    kind = "sink" if name.endswith("Sink") else "source"
    return Plugin(name, kind, f"strom.connect.connectors.{module}:{name}", doc, aliases)


BUILT_IN = (
    _own(
        "FileStreamSource",
        "files.source",
        "Lines, CSV or JSON lines of files, which may grow and be rotated.",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "FileStreamSourceConnector",
    ),
    _own(
        "FileStreamSink",
        "files.sink",
        "Records as lines of a file.",
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "FileStreamSinkConnector",
    ),
    _own(
        "JdbcSource",
        "databases.source",
        "Rows of tables in PostgreSQL or SQLite: new, updated, or all.",
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "JdbcSourceConnector",
    ),
    _own(
        "JdbcSink",
        "databases.sink",
        "Records as rows in PostgreSQL or SQLite, exactly once.",
        "io.confluent.connect.jdbc.JdbcSinkConnector",
        "JdbcSinkConnector",
    ),
    _own(
        "PostgresChanges",
        "postgres_changes.source",
        "Every change of PostgreSQL tables, by logical replication.",
        "io.debezium.connector.postgresql.PostgresConnector",
    ),
    _own(
        "LakeSink",
        "lake.sink",
        "Records as Parquet or Delta tables, in folders or S3-compatible stores, exactly once.",
    ),
    _own("HttpSource", "web.http_source", "Responses of an HTTP interface, polled page by page."),
    _own("HttpSink", "web.http_sink", "Records sent to an HTTP interface."),
    _own("WebPageSource", "web.page_source", "Elements of web pages, selected by CSS selectors."),
    _own("AmqpSource", "amqp.source", "Messages of AMQP queues."),
    _own("AmqpSink", "amqp.sink", "Records published to an AMQP exchange."),
    _own(
        "MongoSource",
        "mongo.source",
        "Changes of MongoDB collections, by change streams.",
        "com.mongodb.kafka.connect.MongoSourceConnector",
    ),
    _own(
        "MongoSink",
        "mongo.sink",
        "Records as MongoDB documents.",
        "com.mongodb.kafka.connect.MongoSinkConnector",
    ),
)


@functools.cache
def plugins() -> Mapping[str, Plugin]:
    """All available connector classes by name."""
    found = {plugin.name: plugin for plugin in BUILT_IN}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            loaded = entry.load()
        except Exception as error:  # noqa: BLE001 - one broken package must not hide the others
            log.warning("The connector %s cannot be loaded: %s", entry.name, error)
            continue
        kind = "sink" if hasattr(loaded.task_class, "put") else "source"
        doc = (loaded.__doc__ or "").strip().partition("\n")[0]
        found[entry.name] = Plugin(entry.name, kind, entry.value, doc)
    return found


def _by_location(name: str, packages: Collection[str]) -> Plugin:
    module = name.partition(":")[0]
    if not any(f"{module}.".startswith(f"{package}.") for package in packages):
        text = (
            f"This worker must not import the connector class {name}. Add its package to the worker's "
            f"setting plugin.packages, or offer it through the entry point group {ENTRY_POINTS}."
        )
        raise InvalidSettings({"connector.class": [text]})
    try:
        loaded: Any = Plugin(name, "", name, "").load()
    except (ImportError, AttributeError) as error:
        text = f"The connector class {name} cannot be imported: {error}."
        raise InvalidSettings({"connector.class": [text]}) from None
    if not isinstance(loaded, type) or not issubclass(loaded, Connector):
        raise InvalidSettings({"connector.class": [f"{name} is not a connector class."]})
    kind = "sink" if issubclass(loaded, SinkConnector) else "source"
    return Plugin(name, kind, name, (loaded.__doc__ or "").strip().partition("\n")[0])


@functools.cache
def _by_any_name() -> Mapping[str, Plugin]:
    return {alias: one for one in plugins().values() for alias in (one.name, *one.aliases)}


def plugin(name: str, packages: Collection[str] = ()) -> Plugin:
    """The connector class that `connector.class` names; InvalidSettings suggests the nearest.

    `packages` lists the packages from which `module:class` may be imported.
    """
    known = _by_any_name()
    if ":" in name and name not in known:
        return _by_location(name, packages)
    return find_named(known, name, "connector.class", "connector class")
