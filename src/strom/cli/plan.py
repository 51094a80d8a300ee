"""`strom plan`: show what a project would run."""

from pathlib import Path
from typing import Any

import click

from strom.cli.project import opened, project_option


@click.command()
@project_option
@click.option("--mode", type=click.Choice(["lambda", "kappa"]), default="lambda", show_default=True)
@click.option("--mermaid", is_flag=True, help="Print a Mermaid diagram.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write an SVG file.")
def plan(folder: Path, mode: Any, mermaid: bool, svg: Path | None) -> None:
    """Show what a project runs, and where.

    Starts nothing.
    """
    project = opened(folder)
    from strom.pipelines.plan import make_plan, to_mermaid, to_svg, to_text

    made = make_plan(project, mode)
    if svg is not None:
        svg.write_text(to_svg(made), "utf-8")
        click.echo(f"Wrote {svg}.")
    else:
        click.echo(to_mermaid(made) if mermaid else to_text(made))
