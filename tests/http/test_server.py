"""One way to start and to stop."""

import asyncio
import errno
import socket
import subprocess
import sys
import threading

import pytest

from strom.http.application import HttpApplication
from strom.http.guard import Guard
from strom.http.server import HttpListener, HttpServer, HttpThread
from strom.model.errors import UserError
from strom.server.event_loop import loop_factory
from tests.http.small_server import HOST, JSON, PLAIN, SmallApp, read_one, read_to_end, running
from tests.http.test_protocol_limits import until

WAIT = b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n"


def listen(host="127.0.0.1", port=0):
    return HttpListener(host, port, interface="The small server", setting="port")


def test_a_busy_port_is_reported_with_what_to_do():
    with listen() as first, pytest.raises(UserError) as caught:
        listen(port=first.port)
    message = str(caught.value)
    assert message.startswith(f"The small server cannot listen on 127.0.0.1:{first.port}")
    assert message.endswith("or change port.")
    assert caught.value.setting == "port"


def test_an_address_of_another_machine_is_reported():
    with pytest.raises(UserError, match=r"cannot listen on 203\.0\.113\.1:0 .* this machine"):
        listen("203.0.113.1")


def test_a_name_is_listened_on_at_all_its_addresses_with_one_port():
    with listen("localhost") as listener:
        assert {one.getsockname()[1] for one in listener.sockets} == {listener.port}


def test_an_ipv6_address_has_brackets_in_its_url():
    try:
        listener = listen("::1")
    except UserError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")
    with listener:
        assert listener.url == f"http://[::1]:{listener.port}"


def test_clients_wait_until_the_server_starts():
    with listen() as listener:
        app = HttpApplication(SmallApp(), guard=Guard.create("127.0.0.1"), errors=PLAIN)
        thread = HttpThread(HttpServer(app, listener), "late")
        with socket.create_connection(("127.0.0.1", listener.port), timeout=20) as client:
            client.sendall(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n")
            thread.start()
            assert read_one(client)[0] == 200
        thread.stop()


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, loop_factory()])
def test_a_server_runs_in_the_event_loop_of_its_program(factory):
    async def serve():
        app = HttpApplication(SmallApp(), guard=Guard.create("127.0.0.1"), errors=PLAIN)
        server = HttpServer(app, listen())
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.listener.port)
        writer.write(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await reader.readuntil(b"\r\n")).split()[1] == b"200"
        await server.stop()
        while await reader.read(65536):
            pass
        writer.close()
        await writer.wait_closed()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.listener.port)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve())


def test_stopping_lets_a_request_end_and_closes_idle_connections():
    with running() as server, server.connect() as busy, server.connect() as idle:
        idle.sendall(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n")
        assert read_one(idle)[0] == 200
        busy.sendall(WAIT)
        until(server.app.waiting.is_set)
        stopping = threading.Thread(target=server.thread.stop)
        stopping.start()
        assert read_to_end(idle) == b""
        server.call(server.app.go_on.set)
        assert read_one(busy)[0] == 200
        assert read_to_end(busy) == b""
        stopping.join()


def test_stopping_does_not_wait_forever_for_a_request(caplog):
    with running() as server, server.connect() as client:
        client.sendall(WAIT)
        until(server.app.waiting.is_set)
        server.thread.stop(0.1)
        assert server.thread.join(0)
        assert read_to_end(client) == b""
    assert caplog.records == []


def test_a_server_that_never_started_lets_its_port_go():
    listener = listen()
    app = HttpApplication(SmallApp(), guard=Guard.create("127.0.0.1"), errors=PLAIN)
    HttpThread(HttpServer(app, listener), "never").stop()
    listen(port=listener.port).close()


def test_a_broker_imports_no_http_server_before_it_needs_one():
    check = "import sys, strom.app; assert not {'h11', 'starlette', 'uvicorn'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_a_stop_does_not_wait_for_a_request_that_has_not_arrived():
    """A client that never sends its body would delay every stop."""
    with running() as server, server.connect() as client:
        client.sendall(b"PUT /half HTTP/1.1\r\n" + JSON + b"Content-Length: 20\r\n\r\n{")
        until(lambda: server.app.requests == ["/half"])
        server.thread.ask_to_stop(grace_s=600)
        assert server.thread.join(60)
        assert read_to_end(client) == b""


def test_an_address_family_that_the_kernel_does_not_have_is_left_out(monkeypatch):
    create_server = socket.create_server

    def without_ipv6(address, *, family, **more):
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return create_server(address, family=family, **more)

    both = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
    monkeypatch.setattr("strom.http.server._addresses", lambda host, port: both)
    monkeypatch.setattr(socket, "create_server", without_ipv6)
    with listen("localhost") as listener:
        assert [one.family for one in listener.sockets] == [socket.AF_INET]
