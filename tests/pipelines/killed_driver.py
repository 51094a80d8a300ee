"""A process that works on a World and is killed at a point: FOLDER SERVERS TOPIC POINT.

The points are functions of strom; the process ends itself, by SIGKILL, when one is called the given time.
With the point ANYWHERE it works until it is killed from outside.
"""

import os
import signal
import sys
from pathlib import Path

from strom.pipelines.layers import batch, compaction, master, speed
from strom.pipelines.spark.session import start_session
from strom.supervision import durable_files
from tests.pipelines.shop import make_stream, make_views
from tests.pipelines.world import World

POINTS = {
    # States are written, and the manifest does not know them.
    "after the sink": (speed, "append_segment", 1),
    # The first of two views has the micro-batch, the second has not.
    "between two views": (speed, "append_segment", 2),
    # The new manifest is written beside the old one, and not renamed.
    "before the rename": (durable_files, "_sync", 1),
    # Records are in files, and the table does not know them.
    "mid-archive": (master.MasterDataset, "add", 1),
    # The whole batch is computed, and not published.
    "before a batch is published": (batch, "_published", 1),
    "before a compaction is published": (compaction, "ViewSegment", 1),
}

ANYWHERE = "anywhere"
AT_WORK = "at work"


def die_in(owner, name, times):
    """Replace a function by one that ends this process when it is called for the n-th time."""
    original = getattr(owner, name)
    calls = []

    def deadly(*arguments, **named):
        calls.append(name)
        if len(calls) == times:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    setattr(owner, name, deadly)


def main():
    folder, servers, topic, point = sys.argv[1:]
    stream = make_stream(topic)
    spark = start_session("local[1]", {"spark.sql.shuffle.partitions": "1"})
    world = World(spark, servers, Path(folder), stream, make_views(stream))
    layer = world.speed(max_records=20)
    if point == ANYWHERE:
        print(AT_WORK, flush=True)
        while True:
            work(world, layer)
    die_in(*POINTS[point])
    work(world, layer)
    sys.exit("nobody killed me")


def work(world, layer):
    """Everything that a project does, once."""
    while layer.step():
        pass
    world.archive()
    for name, target in world.targets.items():
        world.compactor.compact(target.feed.fold, target.number)
        world.batch(name)


if __name__ == "__main__":
    main()
