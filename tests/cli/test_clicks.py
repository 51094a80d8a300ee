"""The demo's clicks."""

import json
from collections import Counter
from datetime import datetime

from strom.cli.clicks import PAGES, invent_clicks


def test_as_many_as_asked_for_and_always_the_same():
    clicks = [click for chunk in invent_clicks(50_003) for click in chunk]
    assert len(clicks) == 50_003
    assert clicks == [click for chunk in invent_clicks(50_003) for click in chunk]


def test_each_click_has_user_page_duration_and_time():
    for key, value in next(iter(invent_clicks(1000))):
        click = json.loads(value)
        assert click.keys() == {"user", "page", "ms", "at"}
        assert click["user"].encode() == key
        assert click["page"] in PAGES
        assert click["ms"] >= 0
        assert datetime.fromisoformat(click["at"]).tzinfo is not None


def test_few_pages_get_most_clicks():
    pages = Counter(json.loads(value)["page"] for _, value in next(iter(invent_clicks(20_000))))
    assert sum(count for _, count in pages.most_common(3)) > 10_000
    assert len(pages) == len(PAGES)
