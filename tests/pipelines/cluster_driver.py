"""A process that works on a World with a Spark cluster: FOLDER SERVERS TOPIC MASTER.

It reads commands from standard input, one per line, and responds to each with a line of JSON.
"""

import json
import sys
from pathlib import Path

from strom.model.errors import UserError
from strom.pipelines import Stream, View, count
from strom.pipelines.spark.session import start_session
from tests.pipelines.world import World
from tools.spark_cluster import QUICK

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
}


def pages(topic):
    """Lines of text; counted, and as they are."""
    stream = Stream(topic, format="string")
    counted = View(reads=stream, keys=["value"], measures={"n": count()}, name="counted")
    return stream, [counted, View(reads=stream, name="lines")]


def main():
    folder, servers, topic, master = sys.argv[1:]
    stream, views = pages(topic)
    world = World(start_session(master, SETTINGS), servers, Path(folder), stream, views)
    commands = {
        "speed": lambda: step(world.speed()),
        "archive": world.archive,
        "batch": lambda: [world.batch(view.name).records for view in views],
        "state": lambda: state(world),
    }
    for line in sys.stdin:
        try:
            response = {"done": commands[line.strip()]()}
        except UserError as error:
            response = {"refused": str(error)}
        print(json.dumps(response), flush=True)


def step(speed):
    taken = speed.step()
    for target in speed.all_targets:
        if reason := speed.states.retry_reason(target.feed.name, target.number):
            raise UserError(reason)
    return taken


def state(world):
    """What queries see, and up to where everything was read."""
    return {
        "counted": int(world.query("SELECT sum(n) AS n FROM counted")[0]["n"]),
        "lines": world.query("SELECT count(*) AS n FROM lines")[0]["n"],
        "archived": world.master.position().next,
        "views": [
            world.manifests.existing(name).active_version.position.next for name in world.targets
        ],
    }


if __name__ == "__main__":
    main()
