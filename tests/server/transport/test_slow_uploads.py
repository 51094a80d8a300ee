"""Which uploads are dropped when others wait for their memory; without sockets or a clock."""

import asyncio

import pytest

from strom.server.memory import NetworkMemory
from strom.server.transport.drop_reason import DropReason
from strom.server.transport.reservation import Reservation
from strom.server.transport.slow_uploads import (
    OBSERVED_SECONDS,
    SOCKET_BYTES,
    STALLED_BYTES_PER_SECOND,
    STALLED_SECONDS,
    SlowUploads,
    Upload,
)

FAST = int(2e6 * OBSERVED_SECONDS)
SLOW = 100_000
"""Bytes per second on a line that is slow, and works."""
SWEEP = 0.1
NOW = 1000.0
LATER = NOW + OBSERVED_SECONDS


class Uploader:
    def __init__(self, scene: "Scene", size: int, host: str) -> None:
        self.received_bytes = 0
        self.dropped: list[DropReason] = []
        self.granted: list[int] = []
        self.reservation = Reservation(
            scene.memory.pool_of,
            host,
            scene.loop,
            lambda: self.granted.append(self.reservation.size),
        )
        if not self.reservation.take(size):
            self.reservation.wait(size)

    def drop(self, why: DropReason, reason: str) -> None:
        self.dropped.append(why)


class Scene:
    """Uploads into a memory that has 500 bytes for large requests and 375 of them for one address."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.memory = NetworkMemory(1000)
        self.slow = SlowUploads()
        self.uploaders: list[Uploader] = []

    def upload(self, size: int, host: str) -> Uploader:
        self.uploaders.append(Uploader(self, size, host))
        return self.uploaders[-1]

    def sweep(self, now: float) -> list[int]:
        """The uploaders that are dropped, by their number."""
        held = [one for one in self.uploaders if one.reservation.size or one.reservation.is_waiting]
        self.slow.drop([Upload(one, one.reservation) for one in held], now)
        for one in self.uploaders:
            if one.dropped:
                one.reservation.release()
        return [number for number, one in enumerate(self.uploaders) if one.dropped]


@pytest.fixture
def scene():
    loop = asyncio.new_event_loop()
    yield Scene(loop)
    loop.close()


def test_the_slowest_is_dropped_and_no_more_than_needed(scene):
    for host in "abc":
        scene.upload(150, host)
    scene.upload(100, "d")
    assert scene.sweep(NOW) == []
    scene.uploaders[0].received_bytes, scene.uploaders[2].received_bytes = 2000, 1000
    assert scene.sweep(LATER) == [1]
    assert scene.uploaders[1].dropped == [DropReason.SLOW_UPLOAD]


def test_as_many_as_needed_are_dropped(scene):
    for host in "abc":
        scene.upload(150, host)
    scene.upload(300, "d")
    scene.sweep(NOW)
    scene.uploaders[0].received_bytes = 1
    assert scene.sweep(LATER) == [1, 2]


def test_fast_uploads_stay_however_many_wait(scene):
    for host in "abc":
        scene.upload(150, host)
    scene.upload(300, "d")
    scene.sweep(NOW)
    for one in scene.uploaders:
        one.received_bytes = FAST
    assert scene.sweep(LATER) == []
    for one in scene.uploaders:
        one.received_bytes += STALLED_BYTES_PER_SECOND * 2
    assert scene.sweep(LATER + OBSERVED_SECONDS / 2) == [], "not observed for long enough"
    assert scene.sweep(LATER + OBSERVED_SECONDS) == [0, 1]


def test_nothing_is_dropped_if_no_request_waits(scene):
    scene.upload(150, "a")
    scene.sweep(NOW)
    assert scene.sweep(LATER) == []


def test_an_address_that_waits_for_its_own_share_costs_no_other_address_anything(scene):
    scene.upload(300, "a")
    scene.upload(100, "b")
    scene.upload(100, "a")
    scene.sweep(NOW)
    scene.uploaders[0].received_bytes = 5
    assert scene.sweep(LATER) == [0]


def test_uploads_in_the_memory_of_small_requests_are_not_dropped_for_large_ones(scene):
    scene.upload(7, "a")
    scene.upload(300, "b")
    scene.upload(300, "c")
    scene.sweep(NOW)
    assert scene.sweep(LATER) == [1]


def test_a_stalled_upload_is_dropped_sooner_than_a_slow_one(scene):
    slow, stalled = scene.upload(150, "a"), scene.upload(150, "b")
    scene.upload(150, "c")
    scene.upload(300, "d")
    scene.sweep(NOW)
    slow.received_bytes += SLOW
    scene.uploaders[2].received_bytes += FAST
    assert scene.sweep(NOW + STALLED_SECONDS) == [1]
    assert stalled.dropped == [DropReason.SLOW_UPLOAD]
    slow.received_bytes += SLOW
    assert scene.sweep(LATER) == [0, 1], "the stalled one has not held enough"


def test_many_stalled_uploads_that_wait_for_each_other_are_not_observed_for_a_second_each(scene):
    """A hundred of them, from one address, of which two at a time hold memory."""
    slow = scene.upload(100, "a")
    stalled = [scene.upload(120, "a") for _ in range(100)]
    honest = scene.upload(120, "a")
    now, sweeps = NOW, 0
    while not honest.reservation.size and sweeps < 200:
        scene.sweep(now)
        slow.received_bytes += int(SLOW * SWEEP)
        now += SWEEP
        sweeps += 1
    assert not slow.dropped
    assert all(one.dropped for one in stalled[:-1])
    assert sweeps <= (STALLED_SECONDS + OBSERVED_SECONDS) / SWEEP + 2 * len(stalled) / 2


@pytest.mark.parametrize("waited", [STALLED_SECONDS, 100.0])
@pytest.mark.parametrize("came", [SOCKET_BYTES, SLOW])
def test_one_that_sent_while_it_waited_is_observed_from_then_on(scene, waited, came):
    holding = scene.upload(300, "a")
    one = scene.upload(300, "b")
    scene.sweep(NOW)
    holding.reservation.release()
    now = NOW + waited
    scene.upload(300, "c")
    scene.sweep(now)
    one.received_bytes += came
    for _ in range(10):
        now += SWEEP
        assert scene.sweep(now) == []
    assert one.reservation.size == 300


def test_one_that_did_not_read_its_responses_is_slow_and_not_stalled(scene):
    uploader = scene.upload(300, "a")
    scene.upload(300, "b")
    unread = [Upload(uploader, uploader.reservation, is_read=False)]
    for now in (NOW, NOW + STALLED_SECONDS):
        scene.slow.drop(unread, now)
        assert not uploader.dropped
    scene.slow.drop(unread, LATER)
    assert uploader.dropped


def test_what_was_seen_in_an_earlier_shortage_is_forgotten(scene):
    scene.upload(300, "a")
    scene.upload(300, "b")
    scene.sweep(NOW)
    scene.slow.forget()
    assert scene.sweep(LATER) == []
