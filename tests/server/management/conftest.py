"""The broker and the channels of tests with queues, and calls of the management interface."""

import base64
import json
import urllib.error
import urllib.request

import pytest

from tests.server.amqp.conftest import broker, channel, connect

__all__ = ["ask", "broker", "channel", "connect"]


@pytest.fixture
def ask(broker):
    """`ask("GET", "/api/queues")` gives the status and what was said."""

    def ask(method, path, given=None, *, login="guest:guest", kind="application/json"):
        request = urllib.request.Request(
            broker.management_url + path,
            None if given is None else json.dumps(given).encode(),
            {
                "Authorization": "Basic " + base64.b64encode(login.encode()).decode(),
                "Content-Type": kind,
            },
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    return ask
