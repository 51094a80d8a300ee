"""A process that replays a view and is killed between two segments: FOLDER SERVERS TOPIC."""

import sys
from pathlib import Path

from strom.pipelines import Stream
from strom.pipelines.layers import replay
from strom.pipelines.spark.session import start_session
from tests.pipelines.killed_driver import die_in
from tests.pipelines.layers.test_replay import changed
from tests.pipelines.oracle import SCHEMA
from tests.pipelines.world import World


def main():
    folder, servers, topic = sys.argv[1:]
    stream = Stream(topic, schema=SCHEMA, time="at")
    spark = start_session("local[1]", {"spark.sql.shuffle.partitions": "1"})
    world = World(spark, servers, Path(folder), stream, [])
    die_in(replay, "append_segment", 2)
    world.replay(changed(world), chunk=40)
    sys.exit("nobody killed me")


if __name__ == "__main__":
    main()
