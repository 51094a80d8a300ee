"""Logging in to queues shows a password to nobody."""

import socket
from urllib.parse import urlsplit

from strom.testing import LocalBroker
from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.protocol import PROTOCOL_HEADER


def test_an_unexpected_login_is_reported_without_the_password(caplog):
    caplog.set_level("DEBUG")
    with LocalBroker(queues=True, settings={"amqp.password": "s3cret"}) as broker:
        port = urlsplit(broker.amqp_url).port
        login = method_frame(0, methods.StartOk(response=b"\0guest\0s3cret"))
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(PROTOCOL_HEADER + login + login)
            received = b""
            while b"not expected" not in received:
                data = client.recv(1 << 16)
                assert data, received
                received += data
    assert b"connection.StartOk was not expected" in received
    assert b"s3cret" not in received
    assert "s3cret" not in caplog.text
