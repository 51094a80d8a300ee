"""A publisher and a consumer of one queue that go on through every crash, and note what happened."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from pamqp import base, commands, frame, header
from pamqp.body import ContentBody
from pamqp.exceptions import UnmarshalingException
from pamqp.header import ContentHeader

QUEUE = "crash"
WINDOW = 200
PREFETCH = 100
PATIENCE_S = 60


class RawClient:
    """A connection that is not cleverer than its user."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port), timeout=10)
        self._received = b""
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise

    def _log_in(self) -> None:
        self._socket.sendall(header.ProtocolHeader().marshal())
        self.expect(commands.Connection.Start)
        self.send(commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"), 0)
        self.expect(commands.Connection.Tune)
        self.send(commands.Connection.TuneOk(0, 131072, 0), 0)
        self.send(commands.Connection.Open("/"), 0)
        self.expect(commands.Connection.OpenOk)
        self.call(commands.Channel.Open(), commands.Channel.OpenOk)

    def send(self, method: base.Frame, channel: int = 1) -> None:
        self._socket.sendall(frame.marshal(method, channel))

    def send_message(self, body: bytes) -> None:
        properties = commands.Basic.Properties(delivery_mode=2)
        self._socket.sendall(
            frame.marshal(commands.Basic.Publish(exchange="", routing_key=QUEUE), 1)
            + frame.marshal(ContentHeader(0, len(body), properties), 1)
            + frame.marshal(ContentBody(body), 1)
        )

    def call(self, method: base.Frame, answer: type[base.Frame]) -> Any:
        self.send(method)
        return self.expect(answer)

    def expect(self, kind: type[Any]) -> Any:
        while not isinstance(received := self.read(), kind):
            pass
        return received

    def read(self, timeout: float | None = None) -> Any:
        """The next frame; None if none comes in time."""
        self._socket.settimeout(timeout or 10)
        while True:
            if self._received:
                try:
                    used, _, unpacked = frame.unmarshal(self._received)
                except UnmarshalingException:
                    pass
                else:
                    self._received = self._received[used:]
                    return unpacked
            try:
                piece = self._socket.recv(65536)
            except TimeoutError:
                if timeout is not None:
                    return None
                raise
            if not piece:
                raise ConnectionError("closed")
            self._received += piece

    def close(self) -> None:
        self._socket.close()


class QueueLoad:
    """Numbers go in, each sent once; and come out, perhaps more than once."""

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._sending = self._receiving = True
        self.sent = 0
        self.confirmed: set[int] = set()
        self.deliveries: list[tuple[int, bool]] = []
        self.acked: set[int] = set()
        self.wrong: list[str] = []
        self._threads = [
            threading.Thread(target=self._go_on, args=(work,))
            for work in (self._publish, self._consume)
        ]

    def __enter__(self) -> "QueueLoad":
        client = RawClient(self._url())
        client.call(commands.Queue.Declare(queue=QUEUE, durable=True), commands.Queue.DeclareOk)
        client.close()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sending = self._receiving = False
        for thread in self._threads:
            thread.join()

    def wait_for_progress(self) -> None:
        """Return when more was confirmed and consumed."""
        confirmed, delivered = len(self.confirmed), len(self.deliveries)
        deadline = time.monotonic() + PATIENCE_S
        while len(self.confirmed) <= confirmed or len(self.deliveries) <= delivered:
            assert time.monotonic() < deadline, "nothing moves any more"
            time.sleep(0.002)

    def finish(self) -> None:
        """Publish no more, and consume until nothing comes."""
        self._sending = False
        self._threads[0].join()
        deadline = time.monotonic() + PATIENCE_S
        while not self.confirmed <= {number for number, _ in self.deliveries}:
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
        time.sleep(0.5)

    def check(self) -> None:
        """Nothing is lost or invented, order is kept, and what comes again says so."""
        seen = {number for number, _ in self.deliveries}
        assert self.confirmed <= seen, f"lost: {sorted(self.confirmed - seen)[:10]}"
        assert seen <= set(range(self.sent))
        fresh = [number for number, redelivered in self.deliveries if not redelivered]
        assert fresh == sorted(set(fresh)), "out of order, or again without saying so"
        assert self.wrong == []

    # --- the two sides -------------------------------------------------------------------------

    def _go_on(self, work: Callable[[RawClient], Iterator[None]]) -> None:
        """Work until stopped, with a new connection after every crash."""
        while self._is_wanted(work):
            try:
                client = RawClient(self._url())
            except (OSError, ConnectionError):
                time.sleep(0.01)
                continue
            try:
                for _ in work(client):
                    if not self._is_wanted(work):
                        break
            except (OSError, ConnectionError):
                pass
            finally:
                client.close()

    def _is_wanted(self, work: object) -> bool:
        return self._sending if work == self._publish else self._receiving

    def _publish(self, client: RawClient) -> Iterator[None]:
        client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        first = self.sent
        done = 0
        while self._sending or done < self.sent - first:
            if self._sending and self.sent - first - done < WINDOW:
                number, self.sent = self.sent, self.sent + 1
                client.send_message(str(number).encode())
                timeout = 0.0001
            else:
                timeout = 5.0
            answer = client.read(timeout)
            if isinstance(answer, commands.Basic.Ack):
                last = answer.delivery_tag
                if answer.multiple:
                    self.confirmed.update(range(first, first + last))
                else:
                    self.confirmed.add(first + last - 1)
                done = max(done, last)
            elif isinstance(answer, commands.Basic.Nack):
                done = max(done, answer.delivery_tag)
            elif answer is None and not self._sending and timeout > 1:
                return
        yield

    def _consume(self, client: RawClient) -> Iterator[None]:
        client.send(commands.Basic.Qos(prefetch_count=PREFETCH))
        client.expect(commands.Basic.QosOk)
        client.send(commands.Basic.Consume(queue=QUEUE))
        while True:
            delivery = client.read(0.1)
            if isinstance(delivery, commands.Basic.Deliver):
                client.expect(ContentHeader)
                number = int(client.expect(ContentBody).value)
                redelivered = bool(delivery.redelivered)
                if number in self.acked and not redelivered:
                    self.wrong.append(f"{number} was acknowledged, and is not flagged")
                self.deliveries.append((number, redelivered))
                client.send(commands.Basic.Ack(delivery.delivery_tag))
                self.acked.add(number)
            yield
