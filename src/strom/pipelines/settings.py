"""`strom.toml`: the settings of a project."""

import difflib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strom.model.errors import UserError
from strom.pipelines.definitions.keys import parse_duration

FILE = "strom.toml"


@dataclass(frozen=True)
class Settings:
    """What `strom.toml` says; each comment is the section and name there."""

    name: str = "project"  # name
    data: str = "data"  # data
    files: tuple[str, ...] = ()  # project.files; without it, views.py and every .sql file
    registry: str | None = None  # registry, the address of a schema registry
    servers: str | None = None  # kafka.servers; without it, an embedded broker runs
    port: int = 9092  # kafka.port, of the embedded broker
    kafka: dict[str, str] = field(default_factory=dict)  # kafka.settings
    master: str = "local[2]"  # spark.master
    spark: dict[str, str] = field(default_factory=dict)  # spark.settings
    serving_host: str = "127.0.0.1"  # serving.host
    serving_port: int = 8088  # serving.port
    allowed_hosts: tuple[str, ...] = ()  # http.allowed_hosts, of serving and of the worker
    batch_every_s: float = 600.0  # batch.every
    archive_every_s: float = 10.0  # batch.archive_every
    trigger_s: float = 0.0  # speed.every
    batch_records: int = 500_000  # speed.max_records
    connect_url: str | None = None  # connect.url; without it, a worker runs if it is needed
    connect_port: int = 8083  # connect.port, of that worker
    plugin_packages: tuple[str, ...] = ()  # connect.plugin_packages, of that worker
    connectors: dict[str, dict[str, str]] = field(default_factory=dict)  # connectors.NAME


_PLACES: dict[tuple[str, ...], tuple[str, type]] = {
    ("name",): ("name", str),
    ("data",): ("data", str),
    ("project", "files"): ("files", tuple),
    ("registry",): ("registry", str),
    ("kafka", "servers"): ("servers", str),
    ("kafka", "port"): ("port", int),
    ("kafka", "settings"): ("kafka", dict),
    ("spark", "master"): ("master", str),
    ("spark", "settings"): ("spark", dict),
    ("serving", "host"): ("serving_host", str),
    ("serving", "port"): ("serving_port", int),
    ("http", "allowed_hosts"): ("allowed_hosts", tuple),
    ("batch", "every"): ("batch_every_s", float),
    ("batch", "archive_every"): ("archive_every_s", float),
    ("speed", "every"): ("trigger_s", float),
    ("speed", "max_records"): ("batch_records", int),
    ("connect", "url"): ("connect_url", str),
    ("connect", "port"): ("connect_port", int),
    ("connect", "plugin_packages"): ("plugin_packages", tuple),
}


def read_settings(file: Path) -> Settings:
    """The settings of a file; UserError names what is not one."""
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"There is no {file}. Make a project with: strom init NAME") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: {error}") from None
    found: dict[str, Any] = {"connectors": _connectors(file, values.pop("connectors", {}))}
    for place, value in _flattened(values):
        if place not in _PLACES:
            raise UserError(f"{file}: {_unknown(place)}")
        name, kind = _PLACES[place]
        found[name] = _checked(file, place, value, kind)
    return Settings(**found)


def _connectors(file: Path, tables: Any) -> dict[str, dict[str, str]]:
    """Connectors by name. Dotted names may be written bare: TOML's nested tables are joined again."""
    if not isinstance(tables, dict) or not all(isinstance(one, dict) for one in tables.values()):
        raise UserError(f"{file}: connectors are tables, as in [connectors.NAME].")
    return {name: dict(_dotted(table)) for name, table in tables.items()}


def _dotted(table: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{before}{name}.")
        elif isinstance(value, list):
            yield f"{before}{name}", ",".join(map(str, value))
        else:
            yield f"{before}{name}", str(value).lower() if isinstance(value, bool) else str(value)


def _flattened(values: dict[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    places: list[tuple[tuple[str, ...], Any]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            places += [((name, inner), one) for inner, one in value.items()]
        else:
            places.append(((name,), value))
    return places


def _checked(file: Path, place: tuple[str, ...], value: Any, kind: type) -> Any:
    if kind is float and isinstance(value, str):
        try:
            return parse_duration(value) / 1_000_000
        except UserError as error:
            raise UserError(f"{file}: {'.'.join(place)}: {error}") from None
    if kind is dict and isinstance(value, dict):
        return {
            name: str(one).lower() if isinstance(one, bool) else str(one)
            for name, one in value.items()
        }
    if kind is tuple and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if place == ("speed", "max_records") and isinstance(value, int) and value < 1:
        raise UserError(f"{file}: speed.max_records must be at least 1.")
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = {
            str: "a text",
            int: "a number",
            float: "a text like '10 seconds'",
            dict: "a table",
            tuple: "a list of texts",
        }
        raise UserError(f"{file}: {'.'.join(place)} must be {wanted[kind]}.")
    return value


def _unknown(place: tuple[str, ...]) -> str:
    known = [".".join(one) for one in _PLACES]
    near = difflib.get_close_matches(".".join(place), known, n=1)
    return f"There is no setting {'.'.join(place)}." + (f" Did you mean {near[0]}?" if near else "")
