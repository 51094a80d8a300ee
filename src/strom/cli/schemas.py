"""`strom schemas`: list, show, register, check and compare the schemas of a registry."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strom.cli.options import EXISTING_FILE, json_option
from strom.cli.printing import print_found, print_json
from strom.cli.registry import require_registry
from strom.model.errors import UserError
from strom.model.retries import RetryPolicy

if TYPE_CHECKING:
    from strom.registry.client import RegistryClient

DEFAULT_URL = "http://127.0.0.1:8081"
KINDS_BY_ENDING = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
COLOURS = {"+": "green", "-": "red", "~": "yellow"}
NOT_COMPATIBLE = 1


def registry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --url and --login; it gets a `registry`."""

    @click.option(
        "--url",
        envvar="STROM_REGISTRY_URL",
        default=DEFAULT_URL,
        show_default=True,
        show_envvar=True,
        help="The schema registry.",
    )
    @click.option(
        "--login",
        envvar="STROM_REGISTRY_LOGIN",
        metavar="USER:PASSWORD",
        help="The user to authenticate as.",
    )
    @functools.wraps(command)
    def with_registry(url: str, login: str | None, **others: Any) -> Any:
        require_registry()
        from strom.registry.client import RegistryClient

        user, _, password = (login or "").partition(":")
        with RegistryClient(
            url, (user, password) if login else None, retries=RetryPolicy(first_s=0.1, attempts=3)
        ) as registry:
            return command(registry=registry, **others)

    return with_registry


def schema_file(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a schema file; it gets its `text`, `kind` and `references`."""

    @click.argument("file", type=EXISTING_FILE)
    @click.option("--subject", required=True, help="The subject, as in clicks-value.")
    @click.option(
        "--type",
        "kind",
        type=click.Choice(["AVRO", "JSON", "PROTOBUF"], case_sensitive=False),
        help="The schema type. [default: by the file's extension: .avsc, .json or .proto]",
    )
    @click.option(
        "--reference",
        "references",
        multiple=True,
        metavar="NAME=SUBJECT:VERSION",
        help="Another schema that this one uses; may be given several times.",
    )
    @functools.wraps(command)
    def with_schema(
        file: Path, kind: str | None, references: tuple[str, ...], **others: Any
    ) -> Any:
        kind = kind or KINDS_BY_ENDING.get(file.suffix.lower())
        if kind is None:
            raise UserError(f"The type of {file.name} is unknown. Name it with --type.")
        return command(
            text=file.read_text("utf-8"),
            kind=kind.upper(),
            references=[_reference(one) for one in references],
            **others,
        )

    return with_schema


@click.group()
def schemas() -> None:
    """List, show, register, check and compare schemas."""


@schemas.command("list")
@json_option
@registry_options
def list_schemas(as_json: bool, registry: "RegistryClient") -> None:
    """List the subjects with their newest versions."""
    found = registry.ask("GET", "schemas", latestOnly="true")
    print_found(
        found,
        ("SUBJECT", "VERSION", "ID", "TYPE"),
        [
            (one["subject"], one["version"], one["id"], one.get("schemaType", "AVRO"))
            for one in found
        ],
        as_json=as_json,
        if_none="There are no schemas yet. Register one with: strom schemas register FILE "
        "--subject …",
    )


@schemas.command()
@click.argument("subject", required=False)
@click.option("--version", default="latest", show_default=True, help="The version to show.")
@click.option("--id", "schema_id", type=int, help="A schema id, instead of a subject.")
@json_option
@registry_options
def show(
    subject: str | None,
    version: str,
    schema_id: int | None,
    as_json: bool,
    registry: "RegistryClient",
) -> None:
    """Print a schema of a subject, or by its id."""
    if (subject is None) == (schema_id is None):
        raise click.UsageError("Give either a subject or --id.")
    if subject is not None:
        found = registry.ask("GET", "subjects", subject, "versions", version)
    else:
        found = {"id": schema_id} | registry.ask("GET", "schemas", "ids", schema_id or 0)
    if as_json:
        print_json(found)
    else:
        click.echo(_pretty(found["schema"], found.get("schemaType", "AVRO")))


@schemas.command()
@schema_file
@click.option("--normalize", is_flag=True, help="Normalize the schema before it is compared.")
@json_option
@registry_options
def register(
    text: str,
    kind: str,
    references: list[tuple[str, str, int]],
    subject: str,
    normalize: bool,
    as_json: bool,
    registry: "RegistryClient",
) -> None:
    """Register the schema in FILE as a version of a subject."""
    given = {
        "schema": text,
        "schemaType": kind,
        "references": [
            {"name": name, "subject": of, "version": version} for name, of, version in references
        ],
    }
    result = registry.ask(
        "POST",
        "subjects",
        subject,
        "versions",
        given=given,
        normalize=str(normalize).lower(),
    )
    schema_id = result["id"]
    if as_json:
        print_json({"subject": subject, "id": schema_id, "version": result.get("version")})
    else:
        version = f" version {result['version']} of" if "version" in result else ""
        click.echo(f"Registered as{version} {subject}, with id {schema_id}.")


@schemas.command()
@schema_file
@json_option
@registry_options
def check(
    text: str,
    kind: str,
    references: list[tuple[str, str, int]],
    subject: str,
    as_json: bool,
    registry: "RegistryClient",
) -> int:
    """Check whether the schema in FILE is compatible with a subject.

    If it is not, prints the reasons and exits with code 1.
    """
    reasons = registry.compatible(subject, text, kind, references)
    if as_json:
        print_json({"subject": subject, "compatible": not reasons, "reasons": reasons})
    elif not reasons:
        click.echo(f"The schema is compatible with {subject}.")
    else:
        click.echo(f"The schema is not compatible with {subject}:")
        for reason in reasons:
            click.echo(f"  {reason}")
    return NOT_COMPATIBLE if reasons else 0


@schemas.command()
@click.argument("subject")
@click.option("--from", "old", metavar="VERSION", help="[default: the version before --to]")
@click.option("--to", "new", metavar="VERSION", default="latest", show_default=True)
@json_option
@registry_options
def diff(
    subject: str, old: str | None, new: str, as_json: bool, registry: "RegistryClient"
) -> None:
    """Show the differences between two versions of a subject."""
    from strom.cli.schema_diff import differences

    after = registry.version(subject, new)
    before = registry.version(subject, old or _one_before(registry, subject, after.version or 1))
    if before.kind != after.kind:
        raise UserError(
            f"Version {before.version} is {before.kind} and version {after.version} is {after.kind}: "
            "they cannot be compared."
        )
    found = differences(before.text, after.text, after.kind)
    if as_json:
        print_json(
            {
                "subject": subject,
                "from": before.version,
                "to": after.version,
                "differences": [one._asdict() for one in found],
            }
        )
        return
    click.secho(f"{subject}: version {before.version} → {after.version}", bold=True)
    if not found:
        click.echo("  no difference")
    for one in found:
        click.secho(f"  {one}", fg=COLOURS[one.sign])


def _one_before(registry: "RegistryClient", subject: str, version: int) -> str:
    earlier = [one for one in registry.ask("GET", "subjects", subject, "versions") if one < version]
    if not earlier:
        raise UserError(f"{subject} has no version before {version}. Name one with --from.")
    return str(earlier[-1])


def _pretty(text: str, kind: str) -> str:
    return (
        text if kind == "PROTOBUF" else json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    )


def _reference(text: str) -> tuple[str, str, int]:
    name, equals, place = text.partition("=")
    subject, colon, version = place.rpartition(":")
    if not (equals and colon and name and subject and version.isdigit()):
        raise UserError(f"{text!r} is not NAME=SUBJECT:VERSION.")
    return name, subject, int(version)
