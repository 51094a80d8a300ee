"""`strom start`: run a broker in the foreground."""

import difflib
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import strom
from strom.cli.companions import Companion, Companions
from strom.cli.connection import DEFAULT_SERVERS
from strom.cli.options import (
    EXISTING_FILE,
    assignments_option,
    lifeline_option,
    port_option,
    ready_json_option,
    with_option,
)
from strom.cli.printing import notice, print_json, print_ready
from strom.client.client_properties import parse_assignment, parse_properties
from strom.http.guard import Guard
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import UserError
from strom.model.http_settings import ALLOWED_HOSTS
from strom.model.settings import Definition
from strom.model.topic_settings import TopicSettings
from strom.supervision.lifeline import end_with_parent
from strom.supervision.log_lines import LINE_FORMAT, log_to_stderr

if TYPE_CHECKING:
    from strom.app import StartReport


def _option(flag: str, definition: Definition, metavar: str) -> Callable[[Any], Any]:
    """An option with the help, default and choices of a setting's definition."""
    default = definition.documented_default
    return click.option(
        flag,
        metavar="|".join(definition.choices) or metavar,
        help=f"{definition.doc} [{definition.name}; default: {default}]",
    )


def _companion_option(flag: str, name: str, usual: int) -> Callable[[Any], Any]:
    doc = f"Also run a {name}, in a separate process, on this port (usually {usual})."
    return port_option(flag, 0, f"{doc} [default: 0, none]", show_default=False)


@click.command()
@_option("--host", BrokerSettings.definition("host"), "ADDRESS")
@_option("--port", BrokerSettings.definition("port"), "N")
@_option("--amqp-port", BrokerSettings.definition("amqp.port"), "N")
@_option("--metrics-port", BrokerSettings.definition("metrics.port"), "N")
@_companion_option("--registry-port", "schema registry", 8081)
@_companion_option("--connect-port", "Connect worker", 8083)
@_option("--data", BrokerSettings.definition("log.dirs"), "DIR")
@_option("--flush", TopicSettings.definition("flush"), "HOW")
@click.option(
    "--advertised",
    metavar="HOST[:PORT]",
    help="The address that metadata responses give to clients. [advertised.host, advertised.port]",
)
@click.option(
    "--config",
    type=EXISTING_FILE,
    help="A file of broker settings, one `name=value` per line. Passwords belong here: arguments of a "
    "program are visible to every user of the machine.",
)
@assignments_option(
    "--set",
    "assignments",
    doc="Any broker setting, or the default of a topic setting by its broker name, as in "
    "log.retention.ms=86400000; may be given several times.",
)
@ready_json_option
@click.option("-q", "--quiet", is_flag=True, help="Print warnings only.")
@click.option("-v", "--verbose", is_flag=True, help="Log at level INFO, connections included.")
@lifeline_option
def start(
    host: str | None,
    port: str | None,
    amqp_port: str | None,
    metrics_port: str | None,
    registry_port: int,
    connect_port: int,
    data: str | None,
    flush: str | None,
    advertised: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    verbose: bool,
    lifeline: bool,
) -> None:
    """Run a broker in the foreground.

    Ctrl-C and SIGTERM stop it cleanly.
    """
    texts = _from_file(config) | _from_arguments(assignments)
    named = {
        "host": host,
        "port": port,
        "amqp.port": amqp_port,
        "metrics.port": metrics_port,
        "log.dirs": data,
        "flush": flush,
    }
    texts |= {name: text for name, text in named.items() if text is not None}
    settings = broker_settings(texts | _advertised_address(advertised))

    log_to_stderr(logging.INFO if verbose else logging.WARNING, LINE_FORMAT)
    if lifeline:
        end_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
    companions = companions_beside(settings, registry_port, connect_port)
    running = Companions(companions)
    from strom.app import serve

    def on_ready(ready: "StartReport") -> None:
        running.start(ready.bootstrap_servers)
        _announce(ready, companions, as_json=as_json, quiet=quiet)

    try:
        # Companions stop first: a worker still has offsets to commit.
        serve(settings, on_ready=on_ready, on_stopping=running.stop)
    finally:
        running.stop()
    if not (quiet or as_json):
        click.echo("Stopped.")


def companions_beside(
    settings: BrokerSettings, registry_port: int, connect_port: int
) -> list[Companion]:
    """The processes to run beside the broker."""
    companions: list[Companion] = []
    host = settings.host
    # An invalid setting must fail this command, instead of every restart of a companion.
    Guard.create(host, settings.http_allowed_hosts)
    allowed = ",".join(filter(None, (*settings.http_allowed_hosts, settings.advertised_host)))
    args: tuple[str, ...]
    if registry_port:
        from strom.cli.registry import require_registry

        require_registry()
        args = ("registry", "--host", host, "--port", str(registry_port))
        args += ("--allowed-hosts", allowed) if allowed else ()
        hints = {"port": "Use --registry-port N."}
        companions.append(Companion("schema registry", args, host, registry_port, hints))
    if connect_port:
        from strom.cli.connect_worker import require_connect

        require_connect()
        args = ("connect", "worker", "--host", host, "--port", str(connect_port))
        args += ("--set", f"{ALLOWED_HOSTS.name}={allowed}") if allowed else ()
        hints = {"rest.port": "Use --connect-port N."}
        companions.append(Companion("Connect worker", args, host, connect_port, hints))
    return companions


def broker_settings(texts: Mapping[str, str]) -> BrokerSettings:
    """Parse broker settings; topic defaults have their broker names, as in log.retention.ms."""
    for name in texts:
        if name not in BrokerSettings.definitions():
            raise UserError(_unknown_setting(name))
    return BrokerSettings().override(texts)


def _from_file(config: Path | None) -> dict[str, str]:
    if config is None:
        return {}
    try:
        return parse_properties(config.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{config} cannot be read: {error}") from error


def _from_arguments(assignments: tuple[str, ...]) -> dict[str, str]:
    texts = dict(map(parse_assignment, assignments))
    for name in texts:
        definition = BrokerSettings.definitions().get(name)
        if definition is not None and definition.is_secret:
            raise UserError(
                f"{name} is a secret, and arguments of a program are visible to every user of this "
                f"machine. Put the line {name}=… into a file that only you can read, and start with "
                "--config FILE."
            )
    return texts


def _unknown_setting(name: str) -> str:
    if name in TopicSettings.definitions():
        broker_name = TopicSettings.definition(name).broker_name
        return f"{name} is a topic setting; set the default of all topics with {broker_name}."
    near = difflib.get_close_matches(name, BrokerSettings.definitions(), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"Unknown broker setting {name}.{hint}"


def _advertised_address(advertised: str | None) -> dict[str, str]:
    if advertised is None:
        return {}
    host, colon, port = advertised.rpartition(":")
    if not colon or advertised.endswith("]"):
        return {"advertised.host": advertised.strip("[]")}
    return {"advertised.host": host.strip("[]"), "advertised.port": port}


def _announce(
    ready: "StartReport", companions: Sequence[Companion], *, as_json: bool, quiet: bool
) -> None:
    warnings = [with_option(one.text, one.setting) for one in ready.warnings]
    for warning in warnings:
        notice(f"Warning: {warning}")
    if as_json:
        print_json(
            {
                "bootstrap_servers": ready.bootstrap_servers,
                "amqp_url": ready.shown_amqp_url,
                "management_url": ready.management_url,
                "metrics_url": ready.metrics_url,
                "companions": {one.name: one.url for one in companions},
                "data": ready.data,
                "cluster_id": ready.cluster_id,
                "topics": ready.topics,
                "seconds": round(ready.seconds, 3),
                "warnings": warnings,
            }
        )
    elif not quiet:
        address = (
            "" if ready.bootstrap_servers == DEFAULT_SERVERS else f" -b {ready.bootstrap_servers}"
        )
        topics = "1 topic" if ready.topics == 1 else f"{ready.topics} topics"
        facts = {
            "Kafka clients": ready.bootstrap_servers,
            "queue clients": ready.shown_amqp_url or "none (--amqp-port 0)",
            **({"metrics": ready.metrics_url} if ready.metrics_url else {}),
            **{one.name: one.url for one in companions},
            "data": f"{ready.data} ({topics})",
        }
        print_ready(
            f"strom {strom.__version__} is ready after {ready.seconds:.2f} s",
            facts,
            [f"strom produce clicks{address}", f"strom consume clicks --from-beginning{address}"],
        )
