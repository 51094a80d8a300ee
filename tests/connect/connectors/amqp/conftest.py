"""Brokers of queues to test against: strom's own, and the real RabbitMQ."""

import itertools
import re
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pika
import pytest

from strom.testing import LocalBroker
from tools import rabbitmq

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def strom_amqp() -> Iterator[str]:
    with LocalBroker(queues=True) as broker:
        yield broker.amqp_url


@pytest.fixture(scope="session")
def rabbitmq_amqp() -> Iterator[str]:
    try:
        rabbitmq.locate()
    except rabbitmq.UnavailableError as reason:
        pytest.skip(f"no real RabbitMQ: {reason}")
    with rabbitmq.RealRabbitMQ() as node:
        yield node.url


class Queues:
    """A broker of queues, seen through a gate that can be shut, and a queue on it."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self._connection.channel()
        self.channel.confirm_delivery()
        self.channel.queue_declare(name, durable=True)
        address = urlsplit(url)
        self.gate = Gate(address.hostname, address.port)
        self.url = f"amqp://127.0.0.1:{self.gate.port}/%2F"

    def publish(self, body: bytes | str, **properties: object) -> None:
        properties.setdefault("delivery_mode", 2)
        self.channel.basic_publish("", self.name, body, pika.BasicProperties(**properties))

    def bodies(self) -> list[bytes]:
        """Everything in the queue; it is empty afterwards."""
        found: list[bytes] = []
        while True:
            _, _, body = self.channel.basic_get(self.name, auto_ack=True)
            if body is None:
                return found
            found.append(body)

    def count(self) -> int:
        return int(self.channel.queue_declare(self.name, passive=True).method.message_count)

    def close(self) -> None:
        self.gate.shut()
        if self._connection.is_open:
            if self.channel.is_open:
                self.channel.queue_delete(self.name)
            self._connection.close()


class Gate:
    """Carries bytes to a server and back, until it is shut: then connections break."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.port = 0
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []
        self.open()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        if self._listener is None:
            return
        with_listener, self._listener = [self._listener, *self._open], None
        self._open = []
        for one in with_listener:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                here, _ = listener.accept()
            except OSError:
                return
            there = socket.create_connection(self._target)
            self._open += [here, there]
            for source, target in ((here, there), (there, here)):
                threading.Thread(target=_carry, args=(source, target), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.fixture(params=["strom", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
def queues(request: pytest.FixtureRequest) -> Iterator[Queues]:
    """A fresh queue on each kind of broker."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:60].strip("-")
    url = request.getfixturevalue(f"{request.param}_amqp")
    made = Queues(url, f"{test}-{next(_numbers)}")
    yield made
    made.close()
