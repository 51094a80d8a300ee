"""kill -9 of a consumer with very many unacknowledged messages: others are served, and all come back."""

import multiprocessing
import time

import pytest
from confluent_kafka.admin import AdminClient
from pamqp import commands

from strom.testing import BrokerProcess
from tests.crash.queue_load import QUEUE, RawClient

PATIENCE_S = 600
COUNT = 1_000_000
"""So many that their return takes longer than a request; 60,000 are back before the first response."""


def keep(url: str) -> None:
    """Consume without acknowledging."""
    client = RawClient(url)
    client.send(commands.Basic.Consume(queue=QUEUE))
    client._socket.settimeout(PATIENCE_S)
    while client._socket.recv(1 << 20):
        pass


def fill(client: RawClient, count: int) -> None:
    client.call(commands.Queue.Declare(queue=QUEUE, durable=True), commands.Queue.DeclareOk)
    client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
    for start in range(0, count, 1000):
        for number in range(start, start + 1000):
            client.send_message(b"%d" % number)
        while client.expect(commands.Basic.Ack).delivery_tag < start + 1000:
            pass


def waiting(client: RawClient) -> int:
    declare = commands.Queue.Declare(queue=QUEUE, passive=True)
    found: int = client.call(declare, commands.Queue.DeclareOk).message_count
    return found


def until_all_are_out(client: RawClient) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while waiting(client):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.soak
@pytest.mark.timeout(2 * PATIENCE_S)
def test_a_consumer_killed_with_very_many_messages_delays_no_other_client():
    with BrokerProcess(queues=True) as server:
        client = RawClient(server.amqp_url)
        fill(client, COUNT)
        consumer = multiprocessing.get_context("spawn").Process(target=keep, args=[server.amqp_url])
        consumer.start()
        until_all_are_out(client)
        kafka = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        consumer.kill()
        consumer.join()
        served_meanwhile = 0
        while (back := waiting(client)) < COUNT:
            kafka.list_topics(timeout=10)
            served_meanwhile += back > 0
        assert served_meanwhile
        client.send(commands.Basic.Consume(queue=QUEUE))
        for _ in range(100):
            assert client.expect(commands.Basic.Deliver).redelivered
        client.close()
        assert "Traceback" not in server.words()
