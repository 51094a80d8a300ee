"""Anything may come over the wire of queues: the broker answers or hangs up, and serves the others."""

import contextlib
import logging
import random
import socket
import struct
from collections.abc import Iterator
from urllib.parse import urlsplit

import pika
import psutil
import pytest

from strom.testing import BrokerProcess, LocalBroker

HEADER = b"AMQP\x00\x00\x09\x01"
MIB = 1 << 20


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


RESPONSE = b"\0guest\0guest"
START_OK = frame(
    1,
    0,
    b"\x00\x0a\x00\x0b"
    + bytes(4)
    + short(b"PLAIN")
    + struct.pack(">I", len(RESPONSE))
    + RESPONSE
    + short(b"x"),
)
TUNE_OK = frame(1, 0, b"\x00\x0a\x00\x1f" + struct.pack(">HIH", 2047, 131072, 0))
OPEN = frame(1, 0, b"\x00\x0a\x00\x28" + short(b"/") + b"\x00\x00")
LOGIN = HEADER + START_OK + TUNE_OK + OPEN
CHANNEL = frame(1, 1, b"\x00\x14\x00\x0a\x00")
DECLARE = frame(1, 1, b"\x00\x32\x00\x0a\x00\x00" + short(b"fuzz") + b"\x00" + bytes(4))
BIND = frame(
    1,
    1,
    b"\x00\x32\x00\x14\x00\x00" + short(b"fuzz") + short(b"amq.topic") + short(b"#") + bytes(5),
)
CONSUME = frame(
    1, 1, b"\x00\x3c\x00\x14\x00\x00" + short(b"fuzz") + short(b"c") + b"\x00" + bytes(4)
)
PUBLISH = frame(1, 1, b"\x00\x3c\x00\x28\x00\x00" + short(b"amq.topic") + short(b"a.b") + b"\x00")
CONTENT = frame(
    2,
    1,
    b"\x00\x3c\x00\x00"
    + struct.pack(">Q", 3)
    + b"\x20\x00"
    + struct.pack(">I", 6)
    + b"\x01aS"
    + bytes(3)[:3],
)
BODY = frame(3, 1, b"abc")
ACK = frame(1, 1, b"\x00\x3c\x00\x50" + struct.pack(">QB", 1, 0))
SESSION = [LOGIN, CHANNEL, DECLARE, BIND, CONSUME, PUBLISH, CONTENT, BODY, ACK]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(queues=True) as running:
        yield running


def talk(url: str, data: bytes, patience_s: float = 0.05) -> None:
    address = urlsplit(url)
    client = socket.create_connection((address.hostname, address.port), timeout=5)
    with client, contextlib.suppress(OSError):
        client.sendall(data)
        client.settimeout(patience_s)
        while client.recv(65536):
            pass


def check_it_serves(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"still here")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"still here"


def mutated(session: list[bytes], chance: random.Random) -> bytes:
    """A session with something wrong in it."""
    frames = list(session)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(frames))
        match chance.randrange(6):
            case 0:
                frames.insert(at, frames[chance.randrange(len(frames))])
            case 1:
                del frames[at]
            case 2:
                frames[at] = frames[at][: chance.randrange(len(frames[at]))]
            case 3:
                frames.insert(at, chance.randbytes(chance.randrange(1, 60)))
            case _:
                broken = bytearray(frames[at])
                broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
                frames[at] = bytes(broken)
        frames = [frame for frame in frames if frame] or [HEADER]
    return b"".join(frames)


def run(broker: LocalBroker, chance: random.Random, count: int) -> None:
    for _ in range(count):
        talk(broker.amqp_url, mutated(SESSION, chance))
    check_it_serves(broker.amqp_url)


def test_the_session_itself_is_fine(broker):
    talk(broker.amqp_url, b"".join(SESSION))
    check_it_serves(broker.amqp_url)


@pytest.mark.slow
def test_mutated_sessions_harm_no_other_client(broker, seed, caplog):
    with caplog.at_level(logging.ERROR):
        run(broker, random.Random(seed), 150)
    assert [
        record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR
    ] == []


@pytest.mark.soak
def test_many_mutated_sessions_harm_no_other_client(broker, seed):
    run(broker, random.Random(seed), 20_000)


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x01\x00\x01\xff\xff\xff\xff" + bytes(1000),
        frame(1, 1, b"\x00\x32\x00\x0a\x00\x00" + short(b"q") + b"\x00" + b"\xff\xff\xff\xff"),
        frame(
            1,
            1,
            b"\x00\x32\x00\x0a\x00\x00"
            + short(b"q")
            + b"\x00"
            + struct.pack(">I", 100_000)
            + b"\x01aF\x00\x01\x80\x00" * 14_000,
        ),
        PUBLISH + frame(2, 1, b"\x00\x3c\x00\x00" + b"\x7f" + b"\xff" * 7 + b"\x00\x00"),
        PUBLISH
        + frame(2, 1, b"\x00\x3c\x00\x00" + struct.pack(">Q", 3) + b"\x00\x00")
        + frame(3, 1, bytes(4)),
        b"".join(frame(1, number, b"\x00\x14\x00\x0a\x00") for number in range(2, 3000)),
    ],
    ids=["frame", "table", "nesting", "announced", "longer-body", "channels"],
)
def test_bombs_are_refused(broker, bomb):
    talk(broker.amqp_url, LOGIN + CHANNEL + bomb, 0.5)
    check_it_serves(broker.amqp_url)


@pytest.mark.slow
def test_half_sent_bodies_and_unread_answers_fit_into_memory():
    with BrokerProcess(queues=True, settings={"queued.max.request.bytes": str(32 * MIB)}) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
            channel = connection.channel()
            channel.queue_declare("large")
            channel.confirm_delivery()
            channel.basic_publish("", "large", bytes(8 * MIB))
        before = psutil.Process(broker.pid).memory_info().rss
        address = urlsplit(broker.amqp_url)
        opened = []
        half = PUBLISH + frame(
            2, 1, b"\x00\x3c\x00\x00" + struct.pack(">Q", 16 * MIB) + b"\x00\x00"
        )
        for _ in range(10):  # each holds back the end of a large message
            client = socket.create_connection((address.hostname, address.port), timeout=10)
            opened.append(client)
            with contextlib.suppress(OSError):
                client.sendall(LOGIN + CHANNEL + half + frame(3, 1, bytes(131_000)) * 100)
        for _ in range(5):  # each asks for a large message again and again, and reads nothing
            client = socket.create_connection((address.hostname, address.port), timeout=10)
            opened.append(client)
            get = frame(1, 1, b"\x00\x3c\x00\x46\x00\x00" + short(b"large") + b"\x00")
            back = frame(1, 1, b"\x00\x3c\x00\x6e\x01")
            with contextlib.suppress(OSError):
                client.sendall(LOGIN + CHANNEL + (get + back) * 200)
        check_it_serves(broker.amqp_url)
        grown = psutil.Process(broker.pid).memory_info().rss - before
        for client in opened:
            client.close()
        check_it_serves(broker.amqp_url)
        assert "Traceback" not in broker.words()
        assert grown < 200 * MIB
