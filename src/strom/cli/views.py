"""`strom views`: list, describe, versions, rollback, drop."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strom.cli.options import json_option, yes_option
from strom.cli.printing import Cell, print_json, print_rows, print_table
from strom.cli.project import opened, project_option
from strom.model.errors import UserError

if TYPE_CHECKING:
    from strom.pipelines.views.manifests import Manifest


@click.group()
def views() -> None:
    """Show views and their versions; roll back, drop."""


@views.command("list")
@json_option
@project_option
def list_views(as_json: bool, folder: Path) -> None:
    """List the views, defined and computed."""
    project = opened(folder)
    from strom.pipelines.set_aside import reason_set_aside

    names = sorted({*project.views, *project.manifests.names()})
    rows = [_listed(project.manifests.read(name), name, name in project.views) for name in names]
    if as_json:
        columns = ("name", "version", "records", "defined", "versions")
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(
            ("VIEW", "VERSION", "RECORDS", "DEFINED", "VERSIONS"),
            [
                (name, v or "-", records, "yes" if defined else "no", _states(versions))
                for name, v, records, defined, versions in rows
            ],
        )
        for name in names:
            if reason := reason_set_aside(project.manifests, name):
                click.echo(f"\n{name} is set aside: {reason}")


@views.command()
@click.argument("name")
@json_option
@project_option
def describe(name: str, as_json: bool, folder: Path) -> None:
    """Show a view's position, segments and files."""
    project = opened(folder)
    from strom.pipelines.set_aside import reason_set_aside

    manifest = project.manifests.existing(name)
    version = manifest.active_version
    if version is None:
        raise UserError(f"View {name} has no active version.")
    segments: list[dict[str, Cell]] = [
        {
            "layer": segment.layer,
            "from": str(segment.start),
            "to": str(segment.end),
            "records": segment.records,
            "files": len(segment.files),
        }
        for segment in version.segments
    ]
    aside = reason_set_aside(project.manifests, name)
    if as_json:
        print_json(
            {
                "name": name,
                "topic": manifest.topic,
                "version": version.number,
                "definition": version.definition,
                "position": list(version.position.next),
                "set_aside": aside,
                "skipped": [list(record) for record in version.skipped],
                "segments": segments,
            }
        )
        return
    click.echo(f"{name}, version {version.number}: {version.definition}")
    click.echo(f"topic {manifest.topic}, read up to {version.position}")
    if aside:
        click.echo(f"set aside: {aside}")
    if version.skipped:
        places = ", ".join(f"{partition}:{offset}" for partition, offset in version.skipped[:10])
        more = ", …" if len(version.skipped) > 10 else ""
        click.echo(f"{len(version.skipped)} records skipped (partition:offset): {places}{more}")
    click.echo()
    print_table(
        ("LAYER", "FROM", "TO", "RECORDS", "FILES"), [tuple(one.values()) for one in segments]
    )


@views.command()
@click.argument("name")
@json_option
@project_option
def versions(name: str, as_json: bool, folder: Path) -> None:
    """List the versions of a view."""
    manifest = opened(folder).manifests.existing(name)
    rows = [
        (
            version.number,
            manifest.state_of(version.number),
            datetime.fromtimestamp(version.created_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            version.position - version.base,
            version.definition,
        )
        for version in manifest.versions
    ]
    columns = ("VERSION", "STATE", "CREATED", "RECORDS", "DEFINITION")
    print_rows({title.lower(): title for title in columns}, rows, as_json=as_json)


@views.command()
@click.argument("name")
@click.option("--to", type=int, help="The version. [default: the previous one]")
@project_option
def rollback(name: str, to: int | None, folder: Path) -> None:
    """Make an earlier version active again; a running project continues with it."""
    project = opened(folder)
    from strom.pipelines.views.versions import rolled_back

    topic = project.manifests.existing(name).topic
    manifest = project.manifests.change(name, topic, lambda before: rolled_back(before, to))
    click.echo(f"Version {manifest.active} of {name} is active.")


@views.command()
@click.argument("name")
@click.option("--version", "number", type=int, help="A version that is not active.")
@yes_option
@project_option
def drop(name: str, number: int | None, yes: bool, folder: Path) -> None:
    """Remove a version of a view, or, without --version, all its data."""
    project = opened(folder)
    from strom.pipelines.layers.building import is_being_built
    from strom.pipelines.views.static_tables import sweep_tables

    manifest = project.manifests.existing(name)
    what = f"version {number} of {name}" if number else f"all versions of {name}"
    if number and number == manifest.active:
        raise UserError(f"Version {number} of {name} is active. Switch to another one first.")
    if number and number not in {version.number for version in manifest.versions}:
        raise UserError(f"View {name} has no version {number}.")
    if (
        number
        and manifest.state_of(number) == "building"
        and is_being_built(project.manifests, name)
    ):
        raise UserError(
            f"Version {number} of {name} is being computed by a replay. Stop the replay first."
        )
    if not yes:
        click.confirm(f"Remove {what}?", abort=True, err=True)
    if number is None:
        project.manifests.drop(name)
    else:
        project.manifests.change(name, manifest.topic, lambda before: before.without(number))
        project.manifests.sweep(name)
    sweep_tables(project)
    click.echo(f"Removed {what}.")


def _listed(
    manifest: "Manifest | None", name: str, defined: bool
) -> tuple[str, int | None, int, bool, list[dict[str, Cell]]]:
    if manifest is None:
        return name, None, 0, defined, []
    versions: list[dict[str, Cell]] = [
        {"version": one.number, "state": manifest.state_of(one.number)} for one in manifest.versions
    ]
    version = manifest.active_version
    if version is None:
        return name, None, 0, defined, versions
    return name, version.number, version.position - version.base, defined, versions


def _states(versions: list[dict[str, Cell]]) -> str:
    return ", ".join(f"{one['version']} {one['state']}" for one in versions) or "-"
