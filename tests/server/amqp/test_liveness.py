"""Connections that are given up, on a clock that the test moves."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from strom.server.amqp.liveness import Liveness
from strom.server.transport.drop_reason import DropReason


class Clockwork(asyncio.SelectorEventLoop):
    """An event loop whose time the test moves."""

    now = 1000.0

    def time(self) -> float:
        return self.now


class FakeTransport:
    def __init__(self) -> None:
        self.is_reading = True
        self.ended: list[str] = []

    def drop(self, why: DropReason, reason: str) -> None:
        self.ended.append(f"{why}: {reason}")


class FakeFrames:
    def __init__(self) -> None:
        self.last_sent = 0.0
        self.heartbeats = 0

    def send_heartbeat(self) -> None:
        self.heartbeats += 1


class Scene:
    def __init__(self, loop: Clockwork) -> None:
        self.loop = loop
        self.transport, self.out = FakeTransport(), FakeFrames()
        self.liveness = Liveness(cast("Any", self.transport), cast("Any", self.out))

    async def after(self, seconds: float) -> None:
        """Let time pass, half a second at a time."""
        for _ in range(int(seconds * 2)):
            self.loop.now += 0.5
            for _ in range(3):
                await asyncio.sleep(0)


def run(test: Callable[[Scene], Any]) -> None:
    loop = Clockwork()

    async def scene() -> None:
        await test(Scene(loop))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scene())


def test_a_client_that_does_not_log_in_is_closed():
    async def test(scene: Scene) -> None:
        scene.liveness.await_login(10)
        await scene.after(9)
        assert scene.transport.ended == []
        await scene.after(2)
        assert scene.transport.ended == ["login_timeout: login timed out"]

    run(test)


def test_a_client_that_sends_nothing_for_two_heartbeats_is_given_up():
    async def test(scene: Scene) -> None:
        scene.liveness.await_login(10)
        scene.liveness.start_heartbeats(10)
        await scene.after(19)
        assert scene.transport.ended == []
        await scene.after(10)
        assert scene.transport.ended == ["missed_heartbeats: missed two heartbeats"]
        assert scene.out.heartbeats > 2

    run(test)


def test_a_client_whose_socket_is_not_read_is_not_given_up():
    async def test(scene: Scene) -> None:
        scene.transport.is_reading = False
        scene.liveness.start_heartbeats(10)
        await scene.after(60)
        assert scene.transport.ended == []

    run(test)


def test_no_heartbeat_is_sent_while_other_frames_are():
    async def test(scene: Scene) -> None:
        scene.liveness.start_heartbeats(10)
        for _ in range(30):
            scene.out.last_sent = scene.liveness.received_at = scene.loop.now
            await scene.after(1)
        assert scene.out.heartbeats == 0
        assert scene.transport.ended == []

    run(test)


def test_without_heartbeats_and_after_stop_nothing_happens():
    async def test(scene: Scene) -> None:
        scene.liveness.await_login(1)
        scene.liveness.start_heartbeats(0)
        await scene.after(60)
        scene.liveness.start_heartbeats(1)
        scene.liveness.stop()
        await scene.after(60)
        assert scene.transport.ended == []
        assert scene.out.heartbeats == 0

    run(test)
