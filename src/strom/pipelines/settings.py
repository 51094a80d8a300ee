"""`strom.toml`: the settings of a project."""

import difflib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strom.model.errors import ApiError, UserError
from strom.model.http_settings import ALLOWED_HOSTS
from strom.model.settings import Definition, Kind, Settings, declared, setting

FILE = "strom.toml"
_PORTS = {"minimum": 1, "maximum": 65535}
_MIB = {"minimum": 1, "maximum": 1_000_000_000}
_TOML_TYPES: dict[Kind, tuple[type[Any], str]] = {
    Kind.STRING: (str, "a string"),
    Kind.INT: (int, "an integer"),
    Kind.DURATION: (str, "a string like '10 seconds'"),
    Kind.LIST: (list, "an array of strings"),
    Kind.TABLE: (dict, "a table"),
}
_HEADER = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([\w.-]+)\s*=")


@dataclass(frozen=True, kw_only=True)
class ProjectSettings(Settings):
    """The settings in `strom.toml`; `kafka.port` is `port` under `[kafka]`."""

    name: str = setting(
        "name", Kind.STRING, "project", "The project's name, which prefixes its consumer groups."
    )
    data: str = setting(
        "data", Kind.STRING, "data", "The folder of views and of the embedded broker's log."
    )
    files: tuple[str, ...] = setting(
        "project.files",
        Kind.LIST,
        (),
        "The files that define views; without it, `views.py` and every `.sql` file.",
    )
    registry: str | None = setting(
        "registry", Kind.STRING, None, "The address of a schema registry, for Avro streams."
    )
    servers: str | None = setting(
        "kafka.servers",
        Kind.STRING,
        None,
        "The bootstrap servers of a Kafka cluster; without it, an embedded broker runs.",
    )
    port: int = setting("kafka.port", Kind.INT, 9092, "The embedded broker's port.", **_PORTS)
    kafka: dict[str, str] = setting(  # noqa: RUF009 - the call makes the field
        "kafka.settings", Kind.TABLE, None, "Settings of Kafka's clients, with librdkafka's names."
    )
    master: str = setting("spark.master", Kind.STRING, "local[2]", "Spark's master URL.")
    spark: dict[str, str] = setting(  # noqa: RUF009
        "spark.settings", Kind.TABLE, None, "Spark's own settings."
    )
    serving_host: str = setting(
        "serving.host", Kind.STRING, "127.0.0.1", "The address of the serving API."
    )
    serving_port: int = setting(
        "serving.port", Kind.INT, 8088, "Its port; 0 for a free one.", minimum=0, maximum=65535
    )
    serving_max_rows: int = setting(
        "serving.max_rows",
        Kind.INT,
        1_000_000,
        "Maximum rows of a query's result, over HTTP and of `strom query`.",
        minimum=1,
    )
    serving_max_result_mb: int = setting(
        "serving.max_result_mb", Kind.INT, 256, "Maximum size of an encoded result.", **_MIB
    )
    serving_timeout_s: float = setting(
        "serving.timeout", Kind.DURATION, 60.0, "How long a query may take.", minimum=0.001
    )
    serving_memory_mb: int = setting(
        "serving.memory_mb", Kind.INT, 512, "DuckDB's memory, for all queries together.", **_MIB
    )
    serving_max_spill_mb: int = setting(
        "serving.max_spill_mb",
        Kind.INT,
        2048,
        "Maximum size of files in `data/spill`, for what exceeds DuckDB's memory.",
        **_MIB,
    )
    allowed_hosts: tuple[str, ...] = setting("http.allowed_hosts", Kind.LIST, (), ALLOWED_HOSTS.doc)
    batch_every_s: float = setting(
        "batch.every",
        Kind.DURATION,
        600.0,
        "How often views are recomputed from the master dataset.",
    )
    archive_every_s: float = setting(
        "batch.archive_every",
        Kind.DURATION,
        10.0,
        "How often new records are archived in the master dataset.",
    )
    trigger_s: float = setting(
        "speed.every",
        Kind.DURATION,
        0.0,
        "The minimum interval between micro-batches; without it, they follow at once.",
    )
    batch_records: int = setting(
        "speed.max_records", Kind.INT, 500_000, "Maximum records per micro-batch.", minimum=1
    )
    connect_url: str | None = setting(
        "connect.url",
        Kind.STRING,
        None,
        "The address of a Connect worker; without it, one runs if connectors are declared.",
    )
    connect_port: int = setting("connect.port", Kind.INT, 8083, "That worker's port.", **_PORTS)
    plugin_packages: tuple[str, ...] = setting(
        "connect.plugin_packages", Kind.LIST, (), "Packages of connectors, for that worker."
    )
    connectors: dict[str, dict[str, str]] = setting(  # noqa: RUF009
        "connectors", Kind.TABLE, None, "A table of settings for each connector, by its name."
    )


def read_settings(file: Path) -> ProjectSettings:
    """Read and validate `strom.toml`; UserError names the line of an invalid setting."""
    try:
        text = file.read_text("utf-8")
        values = tomllib.loads(text)
    except FileNotFoundError:
        raise UserError(f"{file} does not exist. Create a project with: strom init NAME") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: {error}") from None
    fields = declared(ProjectSettings)
    found: dict[str, Any] = {}
    for name, value in _flatten(values):
        try:
            if name not in fields:
                raise UserError(_unknown_setting(name))
            attribute, definition = fields[name]
            found[attribute] = _parse(definition, value)
        except (UserError, ApiError) as error:
            raise UserError(f"{file}{_line_of(text, name)}: {error}") from None
    return ProjectSettings(**found)


def _flatten(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and name != "connectors":
            yield from ((f"{name}.{inner}", one) for inner, one in value.items())
        else:
            yield name, value


def _parse(definition: Definition, value: Any) -> Any:
    toml_type, wanted = _TOML_TYPES[definition.kind]
    if not isinstance(value, toml_type) or isinstance(value, bool):
        raise UserError(f"{definition.name} must be {wanted}.")
    if definition.name == "connectors":
        return _connectors(value)
    if definition.kind is Kind.TABLE:
        return {name: _text(one) for name, one in value.items()}
    if definition.kind is Kind.LIST:
        if not all(isinstance(one, str) for one in value):
            raise UserError(f"{definition.name} must be {wanted}.")
        return tuple(value)
    if definition.kind is Kind.STRING:
        return value
    return definition.parse(str(value))


def _connectors(tables: dict[str, Any]) -> dict[str, dict[str, str]]:
    if not all(isinstance(one, dict) for one in tables.values()):
        raise UserError("connectors must be tables: [connectors.NAME].")
    return {name: dict(_join_names(table)) for name, table in tables.items()}


def _join_names(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Settings of a connector. TOML parses unquoted dotted names as nested tables: join them again."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _join_names(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            yield f"{prefix}{name}", ",".join(map(str, value))
        else:
            yield f"{prefix}{name}", _text(value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown_setting(name: str) -> str:
    near = difflib.get_close_matches(name, declared(ProjectSettings), n=1)
    return f"Unknown setting {name}." + (f" Did you mean {near[0]}?" if near else "")


def _line_of(text: str, name: str) -> str:
    """`:N` with the line of a setting; empty if it is not on a line of its own."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = f"{header[1].strip()}."
        elif (key := _KEY.match(line)) and table + key[1] == name:
            return f":{number}"
    return ""
