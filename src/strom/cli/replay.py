"""`strom replay`: a new version of a view, from the log."""

from pathlib import Path

import click

from strom.cli.printing import human_count, notice
from strom.cli.progress import towards
from strom.cli.project import log_of, opened_to_compute, project_option, spark_of
from strom.cli.run import plain_error
from strom.model.errors import StromError


@click.command()
@click.argument("view")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="earliest|TIME|OFFSET",
    help="Where in the log to begin.",
)
@click.option("--no-switch", is_flag=True, help="Leave the present version active.")
@project_option
def replay(view: str, start: str, no_switch: bool, folder: Path) -> None:
    """Compute a new version of a view from the log.

    It grows beside the present one, and queries see the new version as soon as it has caught
    up. `strom views rollback` goes back.
    """
    project = opened_to_compute(folder)
    definition = project.defined_view(view)
    with log_of(project) as kafka:
        from strom.pipelines.replay import Step, replay, starting_point
        from strom.pipelines.spark.session import stop_session

        base = starting_point(kafka, definition.stream.topic, start)
        spark = spark_of(project)
        total = kafka.ends(definition.stream.topic) - base
        last: list[Step] = []
        try:
            with towards(total, f"replay {view}") as report:

                def tell(step: Step) -> None:
                    last[:] = [step]
                    report(step.done)

                number = replay(
                    spark,
                    kafka,
                    project.manifests,
                    definition,
                    project.folder,
                    start=base,
                    group=project.group_of(view),
                    report=tell,
                    keep_inactive=no_switch,
                )
        except StromError:
            raise
        except Exception as error:  # noqa: BLE001 - Spark's are many
            raise plain_error(error) from None
        finally:
            stop_session(spark)
    if last and last[0].seconds:
        rate = human_count(last[0].done / last[0].seconds)
        notice(f"{human_count(last[0].done)} records at {rate}/s.")
    if no_switch:
        then = f"is there, not active. To switch: strom views rollback {view} --to {number}"
    else:
        then = f"is active. To go back: strom views rollback {view}"
    click.echo(f"Version {number} of {view} {then}")
