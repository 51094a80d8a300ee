"""A stream and views that several tests share."""

from datetime import timedelta

from strom.pipelines import Stream, View, collect_set, count, distinct, sum, window  # noqa: A004
from tests.pipelines.oracle import SCHEMA, START


def make_stream(topic):
    return Stream(topic, schema=SCHEMA, time="at")


def make_views(stream):
    return [
        View(
            reads=stream,
            keys=[window("1 minute"), "page"],
            measures={"views": count(), "ms": sum("ms"), "visitors": distinct("user")},
            name="page_minutes",
        ),
        View(reads=stream, keys=["page"], measures={"users": collect_set("user")}, name="pages"),
        View(reads=stream, where="ms > 40", name="slow"),
    ]


def clicks(count, first=0):
    """Rows with nulls and ties; every tenth is late by more than any window."""
    return [
        {
            "user": f"user-{number % 7}" if number % 11 else None,
            "page": f"/{number % 3}",
            "ms": number % 50 if number % 5 else None,
            "at": START + timedelta(seconds=number % 300 - (3600 if number % 10 == 0 else 0)),
        }
        for number in range(first, first + count)
    ]


def answers(world):
    """What all views say, in a form that can be compared."""
    return {
        "page_minutes": world.query("SELECT * FROM page_minutes ORDER BY ALL"),
        "pages": world.query("SELECT * FROM pages ORDER BY page"),
        "slow": world.query("SELECT page, ms, _partition, _offset FROM slow ORDER BY ALL"),
    }
