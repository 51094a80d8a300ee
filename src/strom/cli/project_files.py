"""The files that `strom init` writes."""

import json

IGNORED = "data/\n__pycache__/\n"


def settings_text(name: str) -> str:
    """`strom.toml`, with every setting explained."""
    return f"""# The project's name; consumer groups begin with it.
name = {json.dumps(name, ensure_ascii=False)}
# The folder of the computed views and of the embedded broker's log.
data = "data"
# A schema registry, for Avro streams with schema="registry":
# registry = "http://127.0.0.1:8081"

[project]
# Views are defined in views.py and in every .sql file beside it. Or name the files; no others are loaded:
# files = ["clicks.py", "orders.sql"]

[kafka]
# Without `servers`, `strom run` starts an embedded broker on this port. Or name your cluster:
# servers = "kafka-1:9092,kafka-2:9092"
port = 9092

[spark]
# Or a cluster: "spark://host:7077". All workers must then share the data folder.
master = "local[2]"

[batch]
# How often views are recomputed from the master dataset, and how often the log is archived into it.
every = "10 minutes"
archive_every = "10 seconds"

[serving]
host = "127.0.0.1"
port = 8088
"""


DEFINITIONS = '''"""A shop's clicks, and three views of them."""

from strom.pipelines import Stream, View, count, distinct, mean, quantile, top_k, window

# A topic with a schema. Malformed records go to the topic clicks.dead, with the reason.
clicks = Stream(
    "clicks",
    schema="user STRING, page STRING, ms INT, at TIMESTAMP",
    time="at",
)

# Keys and measures. Batch, speed layer and replay all run this one definition.
page_minutes = View(
    reads=clicks,
    where="page IS NOT NULL",
    keys=[window("1 minute"), "page"],
    measures={"views": count(), "mean_ms": mean("ms"), "visitors": distinct("user")},
)

# `prepare` may be any row-level PySpark.
slow_pages = View(
    reads=clicks,
    prepare=lambda rows: rows.where("ms >= 500"),
    keys=["page"],
    measures={"slow": count(), "p99_ms": quantile("ms", 0.99)},
)

# Without a window: over all records.
shop = View(
    reads=clicks,
    measures={"clicks": count(), "visitors": distinct("user"), "pages": top_k("page", 5)},
)
'''

SQL_DEFINITIONS = """-- A shop's clicks, and three views of them.

CREATE STREAM clicks (user STRING, page STRING, ms INT, at TIMESTAMP)
WITH (topic = 'clicks', time = 'at');

CREATE VIEW page_minutes AS
SELECT window('1 minute'), page,
       count(*) AS views, avg(ms) AS mean_ms, approx_count_distinct(user) AS visitors
FROM clicks
WHERE page IS NOT NULL
GROUP BY window('1 minute'), page;

CREATE VIEW slow_pages AS
SELECT page, count(*) AS slow, quantile(ms, 0.99) AS p99_ms
FROM clicks
WHERE ms >= 500
GROUP BY page;

CREATE VIEW shop AS
SELECT count(*) AS clicks, approx_count_distinct(user) AS visitors, top_k(page, 5) AS pages
FROM clicks;
"""
