"""One connection's socket, on both kinds of event loop, over TCP and TLS."""

import asyncio
import socket
import ssl
import struct
import subprocess
from pathlib import Path

import pytest

from strom.server.transport import client_transport
from strom.storage.files import DiskFiles
from strom.storage.open_files import OpenFiles
from strom.storage.region import Region
from tests.server.serving import LOOPS, run, until
from tests.server.transport.echoing import listening

MIB = 1024 * 1024

pytestmark = pytest.mark.parametrize("loop", LOOPS)


class Segment:
    """A file that regions are made of."""

    def __init__(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.log_path = str(path)

    def region(self, position: int, length: int) -> Region:
        return Region(OpenFiles(DiskFiles(), 10), self, position, length)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """TLS for a server with a self-signed certificate, and for a client that trusts it."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    options = (
        f"-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
        -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    )
    subprocess.run(["openssl", "req", "-x509", *options.split()], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=str(certificate))


def test_what_comes_is_in_the_buffer_and_what_is_sent_arrives_in_order(loop, tmp_path):
    async def test():
        segment = Segment(tmp_path / "log", b"0123456789")
        async with listening() as server:
            handler, reader, writer = await server.connect()
            writer.write(b"hello")
            await until(lambda: handler.input.data == b"hello")
            handler.transport.send([b"a", segment.region(2, 5), b"b", memoryview(b"c")])
            assert await reader.readexactly(8) == b"a23456bc"
            assert handler.calls[:2] == ["connected", "received"]

    run(loop, test())


def test_a_full_socket_pauses_and_its_bytes_count_until_the_client_reads(loop, tmp_path):
    data = bytes(range(256)) * 16 * 1024

    async def test():
        segment = Segment(tmp_path / "log", data)
        async with listening() as server:
            handler, reader, _ = await server.connect()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            handler.transport.send([segment.region(0, len(data)), b"end"])
            for _ in range(3):
                handler.transport.send([segment.region(0, len(data))])
            assert "paused" in handler.calls
            assert 0 < server.memory.in_use <= handler.transport.unsent_bytes
            assert handler.transport.outgoing
            reader._transport.resume_reading()  # type: ignore[attr-defined]
            assert await reader.readexactly(4 * len(data) + 3) == data + b"end" + data * 3
            assert server.memory.in_use == 0
            assert handler.calls[-1] == "resumed"

    run(loop, test())


def test_over_tls_files_are_read_and_not_sent_by_the_kernel(loop, tmp_path, contexts, monkeypatch):
    data = bytes(range(256)) * 16 * 1024

    def refuse(region, socket):
        raise AssertionError("a file was sent around the encryption")

    monkeypatch.setattr(Region, "send", refuse)

    async def test():
        segment = Segment(tmp_path / "log", data)
        async with listening(tls=contexts[0]) as server:
            handler, reader, writer = await server.connect(contexts[1])
            assert not handler.transport.can_send_files
            writer.write(b"hello")
            await until(lambda: handler.input.data == b"hello")
            handler.transport.send([b"head", segment.region(0, len(data)), b"tail"])
            assert await reader.readexactly(len(data) + 8) == b"head" + data + b"tail"
            handler.transport.pause_reading()
            assert not handler.transport.is_reading
            handler.transport.resume_reading()
            writer.write(b" again")
            await until(lambda: handler.input.data == b"hello again")
            handler.transport.close()
            assert await reader.read() == b""

    run(loop, test())


def test_a_client_that_has_gone_without_notice_is_no_error(loop, tmp_path):
    async def test():
        segment = Segment(tmp_path / "log", b"0123456789")
        async with listening() as server:
            client = socket.create_connection(("127.0.0.1", server.listener.port))
            await until(lambda: bool(server.handlers) and server.handlers[0].calls == ["connected"])
            handler = server.handlers[0]
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()  # a reset, of which the loop hears in its next turn
            handler.transport.send([segment.region(0, 5), b"after", segment.region(5, 5)])
            assert not handler.transport.is_open
            await until(lambda: handler.calls == ["connected", "disconnected"])

    run(loop, test())


def test_a_paused_connection_is_read_again_when_it_resumes(loop):
    async def test():
        async with listening() as server:
            handler, _, writer = await server.connect()
            handler.transport.pause_reading()
            handler.transport.pause_reading()
            writer.write(b"later")
            for _ in range(20):
                await asyncio.sleep(0)
            assert handler.input.data == b""
            handler.transport.resume_reading()
            await until(lambda: handler.input.data == b"later")

    run(loop, test())


def test_close_sends_the_last_bytes_and_abort_does_not_wait(loop):
    async def test():
        async with listening() as server:
            handler, reader, _ = await server.connect()
            handler.transport.send([bytes(MIB)])
            handler.transport.close()
            assert not handler.transport.is_open
            assert await reader.read(-1) == bytes(MIB)
            await until(lambda: handler.calls[-1] == "disconnected")
            handler, reader, _ = await server.connect()
            handler.transport.abort("it is wrong")
            handler.transport.write(b"never sent")
            await until(lambda: handler.calls[-1] == "disconnected")

    run(loop, test())


def test_a_client_that_never_reads_its_last_bytes_does_not_keep_its_slot(loop, monkeypatch):
    monkeypatch.setattr(client_transport, "LINGER_SECONDS", 0.05)

    async def test():
        async with listening(limit=1) as server:
            handler, reader, _ = await server.connect()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            handler.transport.write(bytes(16 * MIB))
            assert server.memory.in_use
            handler.transport.close()
            await until(lambda: handler.calls[-1] == "disconnected")
            assert server.memory.in_use == 0
            again, _, _ = await server.connect()
            assert again.calls == ["connected"]

    run(loop, test())


class SlowSocket(asyncio.Transport):
    """Sends some bytes between two looks at it, and at last none."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40000)})
        self.unsent = [100, 60, 20, 20]
        self.aborted = asyncio.Event()

    def get_write_buffer_size(self) -> int:
        return self.unsent.pop(0)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.aborted.set()


def test_a_client_that_reads_its_last_bytes_slowly_gets_them(loop, monkeypatch):
    monkeypatch.setattr(client_transport, "LINGER_SECONDS", 0.001)

    async def test():
        async with listening() as server:
            transport = client_transport.ClientTransport(server.listener)
            socket = SlowSocket()
            transport.connection_made(socket)
            transport.close()
            await socket.aborted.wait()
            transport.connection_lost(None)
            assert socket.unsent == []

    run(loop, test())


def test_connections_beyond_the_limit_are_closed_without_reaching_the_protocol(loop):
    async def test():
        async with listening(limit=1) as server:
            await server.connect()
            handler, reader, _ = await server.connect()
            try:
                assert await reader.read() == b""
            except ConnectionError:
                pass
            assert handler.calls == ["disconnected"]

    run(loop, test())
