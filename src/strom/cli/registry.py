"""`strom registry`: run a schema registry on any Kafka."""

import click

import strom
from strom.cli.connection import CliConnection, connection_options
from strom.cli.options import (
    host_option,
    lifeline_option,
    port_option,
    ready_json_option,
    require_packages,
)
from strom.cli.printing import print_json, print_ready
from strom.model.http_settings import ALLOWED_HOSTS
from strom.supervision.lifeline import end_with_parent

DEFAULT_PORT = 8081
_PACKAGES = ("fastavro", "google.protobuf", "grpc_tools", "httpx2", "jsonschema_rs", "starlette")


@click.command()
@connection_options
@host_option
@port_option("--port", DEFAULT_PORT, "The port to listen on; 0 for a free one.")
@click.option(
    "--topic", default="_schemas", show_default=True, help="The topic that holds the schemas."
)
@click.option(
    "--allowed-hosts",
    default="",
    metavar="HOSTS",
    help=f"{ALLOWED_HOSTS.doc} [{ALLOWED_HOSTS.name}]",
)
@ready_json_option
@lifeline_option
def registry(
    connection: CliConnection,
    host: str,
    port: int,
    topic: str,
    allowed_hosts: str,
    as_json: bool,
    lifeline: bool,
) -> None:
    """Run a schema registry on any Kafka.

    It has Confluent's REST interface. Schemas live in a compacted topic, which several registries can
    share. Ctrl-C and SIGTERM stop it cleanly.
    """
    require_registry()
    from strom.registry.server import RegistryServer

    connection.check_reachable()
    server = RegistryServer(
        connection.servers,
        host=host,
        port=port,
        topic=topic,
        settings=connection.settings.properties,
        allowed_hosts=ALLOWED_HOSTS.parse(allowed_hosts),
    )
    if lifeline:
        end_with_parent(server.ask_to_stop)
    server.run(on_ready=lambda url: _announce(url, connection.servers, topic, as_json=as_json))
    if not as_json:
        click.echo("Stopped.")


def require_registry() -> None:
    """Raise UserError if what the registry needs is not installed."""
    require_packages("The registry needs", _PACKAGES, extra="registry")


def _announce(url: str, servers: str, topic: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"registry_url": url, "bootstrap_servers": servers, "topic": topic})
        return
    address = "" if url.endswith(f":{DEFAULT_PORT}") else f" --url {url}"
    print_ready(
        f"strom {strom.__version__} schema registry is ready",
        {"registry clients": url, "schemas": f"topic {topic} at {servers}"},
        [
            f"strom schemas register click.avsc --subject clicks-value{address}",
            f"strom schemas list{address}",
        ],
    )
