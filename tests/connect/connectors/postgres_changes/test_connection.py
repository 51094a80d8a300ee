"""How a replication connection is encrypted and authenticated, by the real PostgreSQL."""

import shutil
import socket
import ssl
import tempfile
import threading
from pathlib import Path

import pytest

from strom.connect.api import ConnectError, RetriableError
from strom.connect.connectors.databases.address import POSTGRES, Address
from strom.connect.connectors.postgres_changes import protocol
from strom.connect.connectors.postgres_changes.connection import ReplicationConnection
from tests.certificates import make_certificate
from tools import debian, postgres

OPTIONS = {"replication": "database"}
PASSWORD = "s3cr3t ﬁsh"
IS_ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


@pytest.fixture(scope="module", params=["ecdsa", "ed25519"])
def encrypting(request):
    """A PostgreSQL with TLS, whose certificate allows channel binding or does not."""
    try:
        postgres.locate()
    except postgres.UnavailableError as reason:
        pytest.skip(f"no real PostgreSQL: {reason}")
    server = postgres.RealPostgres(settings=postgres.FOR_TESTS, password=PASSWORD)
    # Not below pytest's folders, which the server's own user may not enter.
    with tempfile.TemporaryDirectory() as folder:
        made = make_certificate(Path(folder), is_ed25519=request.param == "ed25519")
        if debian.is_root():
            for path in (Path(folder), *made):
                shutil.chown(path, server.user)
        server.settings |= {
            "ssl": "on",
            "ssl_cert_file": str(made.certificate),
            "ssl_key_file": str(made.key),
        }
        with server:
            yield server, request.param


def address_of(server, mode, password=None):
    return Address(
        POSTGRES,
        "127.0.0.1",
        server.port,
        server.database,
        server.user,
        password or server.password,
        mode,
    )


def is_encrypted(address):
    connection = ReplicationConnection(address, OPTIONS)
    try:
        return connection.command(IS_ENCRYPTED) == [["t"]]
    finally:
        connection.close()


@pytest.fixture
def chosen(monkeypatch):
    """The SASL mechanisms that were chosen."""
    found = []
    begin = protocol.sasl_begin

    def record(mechanism, first):
        found.append(mechanism)
        return begin(mechanism, first)

    monkeypatch.setattr(protocol, "sasl_begin", record)
    return found


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_a_server_with_tls_is_spoken_to_over_it_and_bound_to_its_certificate(
    encrypting, chosen, mode
):
    server, key = encrypting
    assert is_encrypted(address_of(server, mode))
    assert chosen == ["SCRAM-SHA-256-PLUS" if key == "ecdsa" else "SCRAM-SHA-256"]


@pytest.mark.postgres
def test_who_does_not_want_tls_does_not_get_it(encrypting, chosen):
    server, _ = encrypting
    assert not is_encrypted(address_of(server, "disable"))
    assert chosen == ["SCRAM-SHA-256"]


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_a_certificate_of_an_unknown_authority_is_refused(encrypting, mode):
    server, _ = encrypting
    with pytest.raises(ConnectError, match=f"sslmode={mode} does not accept.*self-signed"):
        is_encrypted(address_of(server, mode))


@pytest.mark.postgres
def test_a_wrong_password_is_refused_without_showing_it(encrypting):
    server, _ = encrypting
    with pytest.raises(ConnectError, match="password authentication failed") as told:
        is_encrypted(address_of(server, "prefer", "guessed"))
    assert "guessed" not in str(told.value)


@pytest.mark.postgres
def test_without_tls_on_the_server_prefer_goes_on_in_plain_text_and_require_does_not(
    postgres_server,
):
    assert not is_encrypted(address_of(postgres_server, "prefer"))
    with pytest.raises(ConnectError, match="offers no TLS, which sslmode=require demands"):
        is_encrypted(address_of(postgres_server, "require"))


@pytest.mark.parametrize("response", [b"", b"X", b"S"])
def test_prefer_falls_back_only_when_the_server_says_that_it_has_no_tls(response):
    received = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                received.append(connection.recv(100))
                connection.sendall(response)
                if response:
                    received.append(connection.recv(2))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = Address(POSTGRES, "127.0.0.1", listener.getsockname()[1], "d", "u", "p", "prefer")
        with pytest.raises(RetriableError):
            ReplicationConnection(address, OPTIONS)
        thread.join(10)
    assert received[0] == protocol.SSL_REQUEST
    # Nothing of the login in plain text: 22 is the handshake of TLS; X is how a client says good-bye.
    assert all(one[:1] in {b"", b"\x16", b"c"} for one in received[1:])


def test_prefer_goes_on_in_plain_text_where_the_server_admits_the_user_only_so(tmp_path):
    made = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    rejection = protocol.message(b"E", b"SFATAL\0C28000\0Mno pg_hba.conf entry, SSL encryption\0\0")
    welcome = protocol.message(b"R", bytes(4)) + protocol.message(b"Z", b"I")
    startups = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            plain, _ = listener.accept()
            plain.recv(len(protocol.SSL_REQUEST))
            plain.sendall(b"S")
            with context.wrap_socket(plain, server_side=True) as encrypted:
                startups.append(encrypted.recv(1000))
                encrypted.sendall(rejection)
            plain, _ = listener.accept()
            with plain:
                startups.append(plain.recv(1000))
                plain.sendall(welcome)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = Address(POSTGRES, "127.0.0.1", listener.getsockname()[1], "d", "u", "p", "prefer")
        ReplicationConnection(address, OPTIONS).close()
        thread.join(10)
    assert startups == [protocol.startup("u", "d", OPTIONS)] * 2
