"""A query engine in a process of its own, which is killed while a query has spilled.

python -m tests.pipelines.serving.spilling FOLDER
"""

import sys
import time
from pathlib import Path

from strom.pipelines.serving.limits import MIB, QueryLimits
from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.views.manifests import Manifests


def main(folder: str) -> None:
    engine = QueryEngine(Manifests(Path(folder)), limits=QueryLimits(memory_bytes=40 * MIB))

    def wait(_schema, batches):
        for _ in batches:
            print("spilled", flush=True)
            time.sleep(600)

    engine.query_within_limits("SELECT md5(range::TEXT) AS x FROM range(999999) ORDER BY x", wait)


if __name__ == "__main__":
    main(*sys.argv[1:])
