"""Logging in, limits, and what closes what."""

import contextlib
import socket
from urllib.parse import urlsplit

import pika
import pytest
from pika.exceptions import (
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.conformance_amqp.asking import closes_channel, closes_connection

HEADER = b"AMQP\x00\x00\x09\x01"


@pytest.fixture
def raw(server):
    """A socket that sends anything."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as client:
        yield client


def everything(client):
    """What comes until the broker closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65536):
            received += piece
    return received


def test_a_wrong_password_is_refused(connect):
    with pytest.raises((ProbableAuthenticationError, ConnectionClosedByBroker)):
        connect(credentials=pika.PlainCredentials("guest", "wrong"))


def test_an_unknown_user_is_refused(connect):
    with pytest.raises((ProbableAuthenticationError, ConnectionClosedByBroker)):
        connect(credentials=pika.PlainCredentials("nobody", "guest"))


def test_an_unknown_virtual_host_is_refused(connect):
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as error:
        connect(virtual_host="nowhere")
    reason = error.value
    if isinstance(reason, ConnectionClosedByBroker):
        assert reason.reply_code == 530


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x01\x01\x00\x0a", b"AMQP\x00\x00\x09\x02"]
)
def test_a_client_of_another_protocol_gets_our_header(raw, greeting):
    raw.sendall(greeting)
    assert everything(raw) == HEADER


def test_the_broker_says_what_it_can(connect):
    properties = connect()._impl.server_properties
    for capability in (
        "publisher_confirms",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "exchange_exchange_bindings",
        "authentication_failure_close",
    ):
        assert properties["capabilities"][capability] is True


def test_an_error_on_a_channel_leaves_the_others(connect, name):
    connection = connect()
    broken, fine = connection.channel(), connection.channel()
    with closes_channel(404):
        broken.queue_declare(name(), passive=True)
    fine.queue_declare("", exclusive=True)
    assert connection.channel().queue_declare("", exclusive=True)


def test_a_closed_channel_number_can_be_used_again(connect):
    connection = connect()
    for _ in range(3):
        connection.channel(7).close()


def test_a_method_on_a_channel_that_is_not_open_closes_the_connection(connect):
    connection = connect()
    channel = connection.channel(3)
    with closes_connection(504):
        connection._impl._send_method(9, pika.spec.Queue.Declare(queue="x"))
        connection.process_data_events(time_limit=5)
    assert not channel.is_open


def test_opening_a_channel_twice_closes_the_connection(connect):
    connection = connect()
    connection.channel(3)
    with closes_connection(504):
        connection._impl._send_method(3, pika.spec.Channel.Open())
        connection.process_data_events(time_limit=5)


def test_a_frame_without_its_end_closes_the_connection(connect):
    connection = connect()
    with closes_connection(501):
        connection._impl._transport.write(b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x33\x00")
        connection.process_data_events(time_limit=5)


def test_a_header_without_a_method_closes_the_connection(connect):
    connection = connect()
    connection.channel(1)
    with closes_connection(505):
        payload = b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"
        frame = b"\x02\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce"
        connection._impl._transport.write(frame)
        connection.process_data_events(time_limit=5)


def test_a_small_frame_size_is_kept_to(connect, name):
    connection = connect(frame_max=4096)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    channel.basic_publish("", queue, bytes(20_000))
    assert channel.basic_get(queue)[2] == bytes(20_000)


def test_heartbeats_keep_a_quiet_connection_alive(connect):
    connection = connect(heartbeat=1)
    connection.process_data_events(time_limit=3.5)
    connection.channel()
