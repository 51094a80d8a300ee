"""`strom init`: create a project that runs."""

import shlex
from pathlib import Path

import click

from strom.cli.project_files import DEFINITIONS, IGNORED, SQL_DEFINITIONS, settings_text
from strom.model.errors import UserError


@click.command()
@click.argument("name", type=click.Path(path_type=Path))
@click.option("--sql", is_flag=True, help="Define the views in SQL.")
def init(name: Path, sql: bool) -> None:
    """Create a project: a stream, and views of it.

    NAME is the folder to create, with a shop's clickstream and three views.
    """
    if name.exists() and (not name.is_dir() or any(name.iterdir())):
        raise UserError(f"{name} exists and is not an empty folder. Choose another name.")
    name.mkdir(parents=True, exist_ok=True)
    (name / "strom.toml").write_text(settings_text(name.resolve().name), "utf-8")
    (name / ".gitignore").write_text(IGNORED, "utf-8")
    if sql:
        (name / "views.sql").write_text(SQL_DEFINITIONS, "utf-8")
    else:
        (name / "views.py").write_text(DEFINITIONS, "utf-8")
    click.echo(
        f"Created {name}: settings in strom.toml, definitions in views.{'sql' if sql else 'py'}.\n\n"
        f"Next:\n  cd {shlex.quote(str(name))}\n  strom plan\n  strom run\n\nThen, in another terminal:\n"
        '  echo \'{"user": "ada", "page": "/cart", "ms": 120, "at": "2026-11-15T08:00:00Z"}\''
        " | strom produce clicks\n"
        '  strom query "SELECT page, views, visitors FROM page_minutes"'
    )
