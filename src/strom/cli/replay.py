"""`strom replay`: compute a new version of a view from the log."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from strom.cli.printing import human_count, notice
from strom.cli.progress import progress_bar
from strom.cli.project import log_of, opened_to_compute, project_option, spark_of
from strom.cli.run import plain_error
from strom.model.errors import StromError
from strom.supervision.ending import ending_in_time

if TYPE_CHECKING:
    from strom.pipelines.layers.handover import ReplayRound
    from strom.pipelines.views.manifests import Manifests


STOP_S = 5.0
_NOT_STOPPED = (
    f"The replay did not stop within {STOP_S:g} s and was ended. The same command resumes it."
)


@click.command()
@click.argument("view")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="earliest|TIME|OFFSET",
    help="Where in the log to start.",
)
@click.option("--no-switch", is_flag=True, help="Keep the current version active.")
@project_option
def replay(view: str, start: str, no_switch: bool, folder: Path) -> None:
    """Compute a new version of a view from the log.

    It is computed beside the current version and becomes active as soon as it has caught up.
    `strom views rollback` switches back. The same command resumes an interrupted replay.
    """
    with ending_in_time(STOP_S, _NOT_STOPPED):
        _replay(view, start, no_switch, folder)


def _replay(view: str, start: str, no_switch: bool, folder: Path) -> None:
    project = opened_to_compute(folder)
    definition = project.defined_view(view)
    with log_of(project) as kafka:
        from strom.pipelines.layers.building import sole_builder
        from strom.pipelines.layers.replay import ReplayProgress, replay, starting_point
        from strom.pipelines.spark.session import stop_session

        base = starting_point(kafka, definition.stream.topic, start)
        with sole_builder(project.manifests, view):
            pass  # rejects a second replay before it starts Spark
        spark = spark_of(project)
        total = kafka.ends(definition.stream.topic) - base
        steps: list[ReplayProgress] = []
        try:
            with progress_bar(total, f"replay {view}") as report:

                def on_progress(step: ReplayProgress) -> None:
                    if not steps and step.done:
                        notice(f"Resuming version {step.version} after {step.done:,} records.")
                    if step.outpaced is not None:
                        notice(_outpaced(step.outpaced))
                    steps[1:] = [step]
                    report(step.done)

                number = replay(
                    spark,
                    kafka,
                    project.manifests,
                    definition,
                    project.folder,
                    start=base,
                    group=project.group_of(view),
                    report=on_progress,
                    keep_inactive=no_switch,
                )
        except KeyboardInterrupt:
            _report_interrupted(project.manifests, view)
            raise
        except StromError:
            raise
        except Exception as error:  # noqa: BLE001 - Spark raises many kinds
            raise plain_error(error) from None
        finally:
            stop_session(spark)
    if steps and steps[-1].seconds:
        done = steps[-1].done - steps[0].done
        notice(f"{human_count(done)} records at {human_count(done / steps[-1].seconds)}/s.")
    if no_switch:
        then = f"is ready, not active. To switch: strom views rollback {view} --to {number}"
    else:
        then = f"is active. To switch back: strom views rollback {view}"
    click.echo(f"Version {number} of {view} {then}")


def _outpaced(done: "ReplayRound") -> str:
    grows = human_count(done.arrived / done.seconds)
    reads = human_count(done.records / done.seconds)
    return (
        f"The stream grows by {grows} records/s, and the replay reads {reads}/s. It continues until it "
        "has caught up. Ctrl-C stops it and keeps the computed part."
    )


def _report_interrupted(manifests: "Manifests", view: str) -> None:
    from strom.pipelines.layers.building import building_version

    version = building_version(manifests.read(view))
    if version is not None:
        done = version.position - version.base
        notice(
            f"Version {version.number} of {view} is unfinished, with {done:,} records. "
            "The same command resumes it."
        )
