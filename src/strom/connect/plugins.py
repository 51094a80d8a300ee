"""The available connector classes: strom's own, and those of installed packages.

A package offers connectors through the entry point group `strom.connectors`: a short name and the
connector class. Others are named `module:class`, if the worker's setting `plugin.packages` lists their
package: otherwise a client that may create connectors could import any module on the path.
"""

import difflib
import functools
import importlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from strom.connect.api import Connector, InvalidSettings, SinkConnector

log = logging.getLogger(__name__)

ENTRY_POINTS = "strom.connectors"


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
        module, _, name = self.location.partition(":")
        loaded: type[Connector[Any]] = getattr(importlib.import_module(module), name)
        return loaded


_OWN = "strom.connect.connectors"
BUILT_IN = (
    Plugin(
        "FileStreamSource",
        "source",
        f"{_OWN}.files.source:FileStreamSource",
        "Lines, CSV or JSON lines of files, which may grow and be rotated.",
        ("org.apache.kafka.connect.file.FileStreamSourceConnector", "FileStreamSourceConnector"),
    ),
    Plugin(
        "FileStreamSink",
        "sink",
        f"{_OWN}.files.sink:FileStreamSink",
        "Records as lines of a file.",
        ("org.apache.kafka.connect.file.FileStreamSinkConnector", "FileStreamSinkConnector"),
    ),
    Plugin(
        "JdbcSource",
        "source",
        f"{_OWN}.databases.source:JdbcSource",
        "Rows of tables in PostgreSQL or SQLite: new, updated, or all.",
        ("io.confluent.connect.jdbc.JdbcSourceConnector", "JdbcSourceConnector"),
    ),
    Plugin(
        "JdbcSink",
        "sink",
        f"{_OWN}.databases.sink:JdbcSink",
        "Records as rows in PostgreSQL or SQLite, exactly once.",
        ("io.confluent.connect.jdbc.JdbcSinkConnector", "JdbcSinkConnector"),
    ),
    Plugin(
        "PostgresChanges",
        "source",
        f"{_OWN}.postgres_changes.source:PostgresChanges",
        "Every change of PostgreSQL tables, by logical replication.",
        ("io.debezium.connector.postgresql.PostgresConnector",),
    ),
    Plugin(
        "LakeSink",
        "sink",
        f"{_OWN}.lake.sink:LakeSink",
        "Records as Parquet or Delta tables, in folders or S3-compatible stores, exactly once.",
    ),
    Plugin(
        "HttpSource",
        "source",
        f"{_OWN}.web.http_source:HttpSource",
        "Responses of an HTTP interface, polled page by page.",
    ),
    Plugin(
        "HttpSink",
        "sink",
        f"{_OWN}.web.http_sink:HttpSink",
        "Records sent to an HTTP interface.",
    ),
    Plugin(
        "WebPageSource",
        "source",
        f"{_OWN}.web.page_source:WebPageSource",
        "Elements of web pages, selected by CSS selectors.",
    ),
    Plugin(
        "AmqpSource",
        "source",
        f"{_OWN}.amqp.source:AmqpSource",
        "Messages of AMQP queues.",
    ),
    Plugin(
        "AmqpSink",
        "sink",
        f"{_OWN}.amqp.sink:AmqpSink",
        "Records published to an AMQP exchange.",
    ),
    Plugin(
        "MongoSource",
        "source",
        f"{_OWN}.mongo.source:MongoSource",
        "Changes of MongoDB collections, by change streams.",
        ("com.mongodb.kafka.connect.MongoSourceConnector",),
    ),
    Plugin(
        "MongoSink",
        "sink",
        f"{_OWN}.mongo.sink:MongoSink",
        "Records as MongoDB documents.",
        ("com.mongodb.kafka.connect.MongoSinkConnector",),
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
    by_any_name = _by_any_name()
    if name in by_any_name:
        return by_any_name[name]
    if ":" in name:
        return _by_location(name, packages)
    near = difflib.get_close_matches(name, by_any_name, n=1)
    hint = f" Did you mean {near[0]}?" if near else f" Available: {', '.join(plugins())}."
    raise InvalidSettings({"connector.class": [f"Unknown connector class {name}.{hint}"]})
