"""`strom batch`: recompute a view from the master dataset."""

import contextlib
import time
from pathlib import Path

import click

from strom.cli.printing import human_count
from strom.cli.project import opened_to_compute, project_option, spark_of
from strom.cli.run import plain_error
from strom.model.errors import StromError


@click.command()
@click.argument("view")
@project_option
def batch(view: str, folder: Path) -> None:
    """Recompute a view from the master dataset.

    The result is published atomically. If the definition has changed, this creates a new version
    and switches to it.
    """
    project = opened_to_compute(folder)
    definition = project.defined_view(view)
    from strom.pipelines.kafka_log import KafkaLog
    from strom.pipelines.layers.batch import run_batch
    from strom.pipelines.layers.building import sole_builder
    from strom.pipelines.layers.compiled_views import compile_view
    from strom.pipelines.layers.master import MasterDataset
    from strom.pipelines.layers.replay import begin_version, switch
    from strom.pipelines.spark.session import stop_session
    from strom.pipelines.views.versions import current_version

    master = MasterDataset(project.data / "master", definition.stream.topic)
    base = master.base()
    kafka = KafkaLog(project.servers, project.settings.kafka)  # for dead letters only
    spark = spark_of(project)
    began = time.perf_counter()
    try:
        feed = compile_view(spark, definition, project.folder)
        version = current_version(project.manifests.read(view), definition)
        with contextlib.ExitStack() as holding:
            if version is None or version.state == "building":
                holding.enter_context(sole_builder(project.manifests, view))
                if version is None or version.base != base:
                    version = begin_version(
                        spark,
                        project.manifests,
                        feed,
                        base,
                        master.incarnation(),
                        state="building",
                    )
            done = run_batch(spark, project.manifests, master, feed, version.number, kafka)
            switch(project.manifests, feed, version.number)
    except StromError:
        raise
    except Exception as error:  # noqa: BLE001 - Spark raises many kinds
        raise plain_error(error) from None
    finally:
        kafka.close()
        stop_session(spark)
    seconds = time.perf_counter() - began
    click.echo(
        f"Version {done.version} of {view} holds {human_count(done.records)} records up to {done.cut}, "
        f"computed in {seconds:.1f} s."
    )
