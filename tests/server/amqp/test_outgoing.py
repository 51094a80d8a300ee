"""What a connection sends, and when it stops: without sockets."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from strom.server.amqp.outgoing import MAX_GATHERED, MAX_UNCONFIRMED, MAX_UNSENT, OutgoingFrames
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.protocol import HEARTBEAT


class FakeTransport:
    def __init__(self) -> None:
        self.is_open = True
        self.is_write_paused = False
        self.is_pool_exhausted = False
        self.unsent_bytes = 0
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


class FakeChannel:
    def __init__(self) -> None:
        self.updates = 0
        self.due = 0
        self.publisher = self  # a channel and its publisher in one

    @property
    def has_confirms(self) -> bool:
        return self.due > 0

    def write_confirms(self) -> int:
        count, self.due = self.due, 0
        return count

    def update(self) -> None:
        self.updates += 1


class Scene:
    """Frames of a connection with one channel; the turn ends when a test says so."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.channel = FakeChannel()
        self.flushes_due: list[object] = []
        self.out = OutgoingFrames(
            cast("Any", self.transport), cast("Any", {1: self.channel}), cast("Any", self), self
        )

    def send_later(self, sender: object) -> None:
        self.flushes_due.append(sender)

    def flush(self) -> None:
        self.out.flush()

    def delivers(self) -> tuple[bool, int]:
        """Whether deliveries may be added, and how often channels were called about it."""
        return self.out.can_deliver, self.channel.updates


def in_a_scene(test: Callable[[Scene], None]) -> None:
    async def run() -> None:
        test(Scene())

    asyncio.run(run())


def test_frames_of_a_turn_go_out_in_one_write():
    def test(scene: Scene) -> None:
        scene.out.send(0, methods.OpenOk())
        scene.out.send_heartbeat()
        assert scene.flushes_due == [scene]
        assert scene.transport.written == []
        assert not scene.out.flush()
        (written,) = scene.transport.written
        assert written.endswith(HEARTBEAT)
        assert scene.out.frames == []
        scene.out.flush()
        assert len(scene.transport.written) == 1

    in_a_scene(test)


def test_deliveries_stop_when_too_much_has_gathered_and_resume_after_the_flush():
    def test(scene: Scene) -> None:
        scene.out.frames.append(b"x")
        scene.out.added(MAX_GATHERED + 1)
        assert scene.delivers() == (False, 1)
        scene.out.added(1)
        assert scene.delivers() == (False, 1)
        scene.out.flush()
        assert scene.delivers() == (True, 2)

    in_a_scene(test)


def test_deliveries_stop_while_the_socket_accepts_nothing():
    def test(scene: Scene) -> None:
        scene.transport.is_write_paused = True
        scene.out.update()
        assert scene.delivers() == (False, 1)
        scene.transport.is_write_paused = False
        scene.out.update()
        assert scene.delivers() == (True, 2)

    in_a_scene(test)


def test_a_client_that_leaves_too_much_unread_is_not_read():
    def test(scene: Scene) -> None:
        scene.transport.is_write_paused = True
        scene.transport.unsent_bytes = MAX_UNSENT
        full = [scene.out.is_full]
        scene.transport.unsent_bytes += 1
        full.append(scene.out.is_full)
        scene.transport.unsent_bytes = 1
        scene.transport.is_pool_exhausted = True
        full.append(scene.out.is_full)
        scene.transport.is_write_paused = False  # others do not read, this client does
        full.append(scene.out.is_full)
        assert full == [False, True, True, False]

    in_a_scene(test)


def test_a_flush_reports_that_the_client_may_be_read_again():
    def test(scene: Scene) -> None:
        scene.out.frames.append(b"x")
        scene.out.size = MAX_UNSENT + 1
        assert scene.out.is_full
        assert scene.out.flush()
        scene.out.unconfirmed = MAX_UNCONFIRMED
        assert not scene.out.flush()
        scene.channel.due = 1
        assert scene.out.flush()
        assert scene.out.unconfirmed == MAX_UNCONFIRMED - 1

    in_a_scene(test)


def test_nothing_is_written_to_a_closed_transport():
    def test(scene: Scene) -> None:
        scene.transport.is_open = False
        scene.out.send(0, methods.OpenOk())
        scene.out.flush()
        assert scene.transport.written == []

    in_a_scene(test)
