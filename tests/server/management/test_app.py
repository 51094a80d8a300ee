"""The management interface within the broker: its address, its port, its share of the event loop."""

import asyncio
import socket

import pytest

from strom.app import Node
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import UserError
from strom.server.management.app import SLICE, _to_json
from tests.http.pages import send


def settings(folder, **more):
    return BrokerSettings(data=str(folder), port=0, amqp_port=-1, **more)


def test_a_broker_on_an_ipv6_address_is_managed_by_the_url_that_it_names(tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")

    async def run():
        node = Node(settings(tmp_path, host="::1", amqp_management_port=-1))
        ready = await node.start()
        assert ready.management_url.startswith("http://[::1]:")
        assert ready.bootstrap_servers.startswith("[::1]:")
        assert "@[::1]:" in ready.amqp_url
        response = await asyncio.to_thread(send, ready.management_url, path="/health/ready")
        assert response.status == 200
        await node.stop()

    asyncio.run(run())


def test_a_busy_port_is_reported_by_its_setting(tmp_path):
    async def run(port):
        with pytest.raises(UserError, match=rf"{port} .*amqp\.management\.port"):
            await Node(settings(tmp_path, amqp_management_port=port)).start()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asyncio.run(run(taken.getsockname()[1]))


def test_health_needs_no_login(broker):
    assert send(broker.management_url, path="/health/live").status == 200
    assert send(broker.management_url, path="/api/overview").status == 401


def test_a_long_list_is_written_in_slices():
    async def turns_while_writing(count):
        writing = asyncio.ensure_future(_to_json([{"name": "q"}] * count))
        turns = 0
        while not writing.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await writing).count(b"q") == count
        return turns

    assert asyncio.run(turns_while_writing(10 * SLICE)) >= 10


def test_getting_messages_ends_at_a_size(ask, channel, monkeypatch):
    monkeypatch.setattr("strom.server.management.calls.MAX_GET_BYTES", 100)
    channel.queue_declare("q")
    for _ in range(4):
        channel.basic_publish("", "q", b"m" * 50)
    status, found = ask("POST", "/api/queues/%2F/q/get", {"count": 10})
    assert (status, len(found)) == (200, 2)
    assert ask("GET", "/api/queues/%2F/q")[1]["messages_ready"] == 4
