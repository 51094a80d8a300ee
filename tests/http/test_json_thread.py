"""Where JSON bodies are parsed."""

import asyncio
import threading

from strom.http import json_thread
from strom.http.json_thread import SMALL_BYTES, load_json


def test_a_large_body_is_parsed_outside_of_the_event_loop(monkeypatch):
    seen = []

    def parse(body):
        seen.append(threading.current_thread() is threading.main_thread())

    monkeypatch.setattr(json_thread, "parse_json", parse)
    asyncio.run(load_json(b" " * SMALL_BYTES))
    asyncio.run(load_json(b" " * (SMALL_BYTES + 1)))
    assert seen == [True, False]
