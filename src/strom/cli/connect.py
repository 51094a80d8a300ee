"""`strom connect`: list, add, change, pause, restart and remove connectors; run a worker."""

import json
import tomllib
from pathlib import Path
from typing import Any

import click

from strom.cli.connect_worker import worker
from strom.cli.options import json_option
from strom.cli.printing import notice, print_found, print_json, print_table
from strom.cli.rest import ConnectRest, connect_options
from strom.client.client_properties import parse_assignment
from strom.model.errors import UserError


@click.group()
def connect() -> None:
    """List, add, change and remove connectors; run a worker.

    Works with Kafka Connect's workers too.
    """


connect.add_command(worker)


@connect.command("list")
@json_option
@connect_options
def list_connectors(as_json: bool, rest: ConnectRest) -> None:
    """List the connectors with their states."""
    found = rest.call("GET", "connectors", query="?expand=status&expand=info")
    names = rest.call("GET", "connectors")
    print_found(
        found,
        ("CONNECTOR", "TYPE", "STATE", "TASKS", "FAILED", "CLASS"),
        [_row(name, found.get(name)) for name in sorted(names)],
        as_json=as_json,
        if_none="There are no connectors yet. Add one with: strom connect add NAME key=value…",
    )


def _row(name: str, one: dict[str, Any] | None) -> tuple[str | int, ...]:
    if one is None:  # too new for any worker to have reported its state
        return (name, "", "UNASSIGNED", 0, 0, "")
    tasks = one["status"]["tasks"]
    failed = sum(task["state"] == "FAILED" for task in tasks)
    class_name = one["info"]["config"].get("connector.class", "").rpartition(".")[2]
    state = one["status"]["connector"]["state"]
    return (name, one["status"]["type"], state, len(tasks), failed, class_name)


@connect.command()
@click.argument("name_or_file")
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--paused", is_flag=True, help="Create it paused.")
@connect_options
def add(name_or_file: str, settings: tuple[str, ...], paused: bool, rest: ConnectRest) -> None:
    """Add a connector, or change it: from a .json or .toml file, or NAME key=value…"""
    for name, config in _configurations(name_or_file, settings).items():
        known = name in rest.call("GET", "connectors")
        if paused and not known:
            body = {"name": name, "config": config, "initial_state": "PAUSED"}
            rest.call("POST", "connectors", given=body)
        else:
            rest.call("PUT", "connectors", name, "config", given=config)
        click.echo(f"{'Changed' if known else 'Added'} connector {name}.")


def _configurations(name_or_file: str, settings: tuple[str, ...]) -> dict[str, dict[str, str]]:
    path = Path(name_or_file)
    given = dict(map(parse_assignment, settings))
    if path.suffix not in {".json", ".toml"}:
        if not given:
            raise UserError(
                f"Connector {name_or_file} has no settings. Add connector.class=… and its settings."
            )
        return {name_or_file: given}
    try:
        text = path.read_text("utf-8")
        read = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return {name: {**config, **given} for name, config in _named(read, path).items()}


def _named(read: Any, path: Path) -> dict[str, dict[str, str]]:
    """Kafka's form {name, config}, a bare configuration, or strom.toml's [connectors.NAME]."""
    if not isinstance(read, dict):
        raise UserError(f"{path} must contain an object.")
    if isinstance(read.get("connectors"), dict):
        return {name: _texts(config) for name, config in read["connectors"].items()}
    config = read.get("config", read)
    name = read.get("name") or config.get("name") or path.stem
    return {str(name): _texts(config)}


def _texts(config: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in config.items()
    }


@connect.command()
@click.argument("name")
@json_option
@connect_options
def status(name: str, as_json: bool, rest: ConnectRest) -> None:
    """Show a connector's tasks, their workers, and the traces of failed ones."""
    found = rest.call("GET", "connectors", name, "status")
    if as_json:
        print_json(found)
        return
    rows = [
        ("connector", found["connector"]),
        *((f"task {one['id']}", one) for one in found["tasks"]),
    ]
    print_table(
        (name.upper(), "STATE", "WORKER"),
        [(title, one["state"], one["worker_id"]) for title, one in rows],
    )
    for title, one in rows:
        if one.get("trace"):
            notice(f"{title}: {one['trace'].strip()}")


@connect.command()
@click.argument("name")
@json_option
@connect_options
def show(name: str, as_json: bool, rest: ConnectRest) -> None:
    """Show a connector's configuration."""
    found = rest.call("GET", "connectors", name, "config")
    print_found(found, ("SETTING", "VALUE"), sorted(found.items()), as_json=as_json)


@connect.command()
@click.argument("name")
@json_option
@connect_options
def offsets(name: str, as_json: bool, rest: ConnectRest) -> None:
    """Show a connector's offsets."""
    found = rest.call("GET", "connectors", name, "offsets")["offsets"]
    rows = [(json.dumps(one["partition"]), json.dumps(one["offset"])) for one in found]
    print_found(found, ("PARTITION", "OFFSET"), rows, as_json=as_json)


def _add_state_command(verb: str, done: str, doc: str) -> None:
    @connect.command(verb, help=doc)
    @click.argument("name")
    @connect_options
    def command(name: str, rest: ConnectRest) -> None:
        rest.call("PUT", "connectors", name, verb)
        click.echo(f"{done} connector {name}.")


_add_state_command("pause", "Paused", "Pause a connector and its tasks.")
_add_state_command("resume", "Resumed", "Resume a paused or stopped connector.")
_add_state_command(
    "stop", "Stopped", "Stop a connector's tasks; keep its configuration and offsets."
)


@connect.command()
@click.argument("name")
@click.option("--only-failed", is_flag=True, help="Only the failed instances.")
@connect_options
def restart(name: str, only_failed: bool, rest: ConnectRest) -> None:
    """Restart a connector and its tasks."""
    query = f"?includeTasks=true&onlyFailed={'true' if only_failed else 'false'}"
    rest.call("POST", "connectors", name, "restart", query=query)
    click.echo(f"Restarted connector {name}.")


@connect.command()
@click.argument("name")
@connect_options
def remove(name: str, rest: ConnectRest) -> None:
    """Remove a connector; keep its offsets for a connector of the same name."""
    rest.call("DELETE", "connectors", name)
    click.echo(f"Removed connector {name}.")


@connect.command()
@click.argument("name")
@connect_options
def logs(name: str, rest: ConnectRest) -> None:
    """Print a connector's last log lines on one worker."""
    lines = rest.call("GET", "connectors", name, "logs")["lines"]
    for line in lines:
        click.echo(line)
    if not lines:
        notice(f"The worker at {rest.url} has no log lines of {name}; other workers may.")


@connect.command()
@click.argument("name", required=False)
@json_option
@connect_options
def plugins(name: str | None, as_json: bool, rest: ConnectRest) -> None:
    """List the connector plugins, or the settings of one."""
    if name is None:
        found = rest.call("GET", "connector-plugins")
        rows: list[tuple[str, ...]] = [(one["class"], one["type"], one["version"]) for one in found]
        head: tuple[str, ...] = ("CLASS", "TYPE", "VERSION")
    else:
        found = rest.call("GET", "connector-plugins", name, "config")
        rows = [
            (
                one["name"],
                one["type"],
                "required" if one["required"] else str(one["default_value"] or ""),
                one["documentation"],
            )
            for one in found
        ]
        head = ("SETTING", "TYPE", "DEFAULT", "DESCRIPTION")
    print_found(found, head, rows, as_json=as_json)


@connect.command()
@click.argument("name_or_file")
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")
@json_option
@connect_options
def validate(
    name_or_file: str, settings: tuple[str, ...], as_json: bool, rest: ConnectRest
) -> None:
    """Validate configurations without creating connectors; exit code 1 if one is invalid."""
    errors = 0
    for name, config in _configurations(name_or_file, settings).items():
        class_name = config.get("connector.class")
        if class_name is None:
            raise UserError(f"{name} has no connector.class.")
        path = ("connector-plugins", class_name, "config", "validate")
        found = rest.call("PUT", *path, given={"name": name, **config})
        errors += found["error_count"]
        if as_json:
            print_json(found)
            continue
        for one in found["configs"]:
            for text in one["value"]["errors"]:
                click.echo(f"{name}: {one['value']['name']}: {text}")
        if not found["error_count"]:
            click.echo(f"{name} is valid.")
    if errors:
        raise SystemExit(1)
