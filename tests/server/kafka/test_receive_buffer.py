import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.model.errors import ProtocolError
from strom.server.kafka.receive_buffer import (
    AHEAD_BYTES,
    BASE_BYTES,
    GROWTH,
    SHRINK_AFTER,
    ReceiveBuffer,
)

LIMIT = 10 * BASE_BYTES * GROWTH


def receive(buffer: ReceiveBuffer, stream: bytes, sizes: list[int]) -> list[bytes]:
    """Feed a stream in pieces of these sizes, over and over; the frames that come out."""
    frames, position, turn = [], 0, 0
    while position < len(stream):
        room = buffer.writable()
        piece = stream[position : position + min(sizes[turn % len(sizes)], len(room))]
        room[: len(piece)] = piece
        buffer.received(len(piece))
        position, turn = position + len(piece), turn + 1
        while (frame := buffer.peek(LIMIT)) is not None:
            frames.append(bytes(frame))
            buffer.take()
        needed = buffer.make_room()
        if needed > 0:
            buffer.grant(needed)
    return frames


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 300) | st.integers(BASE_BYTES - 8, BASE_BYTES * 5), max_size=6),
    sizes=st.lists(st.integers(1, 200) | st.integers(1000, 200_000), min_size=1, max_size=5),
)
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(lengths, sizes):
    if sum(lengths) > 2000 and max(sizes) < 100:
        sizes = [*sizes, 4096]
    bodies = [bytes([index % 251]) * length for index, length in enumerate(lengths)]
    buffer = ReceiveBuffer()
    assert receive(buffer, b"".join(map(frame, bodies)), sizes) == bodies
    assert buffer.is_empty


@pytest.mark.parametrize("size", [0, -1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_an_impossible_length_is_refused(size):
    buffer = ReceiveBuffer()
    buffer.writable()[:4] = struct.pack(">i", size)
    buffer.received(4)
    with pytest.raises(ProtocolError):
        buffer.peek(LIMIT)


def test_a_declared_length_alone_costs_nothing():
    buffer = ReceiveBuffer()
    buffer.writable()[:4] = struct.pack(">i", LIMIT)
    buffer.received(4)
    assert buffer.peek(LIMIT) is None
    assert buffer.make_room() == 0, "there is room for what has come"
    assert size_of(buffer) == BASE_BYTES


def begun(size: int, buffer: ReceiveBuffer | None = None) -> ReceiveBuffer:
    """A buffer that has received as much of a frame as it may without a grant."""
    buffer = buffer or ReceiveBuffer()
    buffer.writable()[:4] = struct.pack(">i", size)
    buffer.received(4)
    assert buffer.peek(LIMIT) is None
    buffer.received(len(buffer.writable()))
    return buffer


def size_of(buffer: ReceiveBuffer) -> int:
    return len(buffer._bytes)


def test_a_frame_needs_a_grant_for_all_of_it_but_the_buffer_grows_with_what_has_arrived():
    buffer = begun(LIMIT)
    assert buffer.make_room() == 4 + LIMIT - BASE_BYTES
    assert len(buffer.writable()) == 0
    buffer.grant(4 + LIMIT - BASE_BYTES)
    assert size_of(buffer) == BASE_BYTES * GROWTH
    buffer.received(len(buffer.writable()))
    assert buffer.make_room() == 0
    assert size_of(buffer) == BASE_BYTES * GROWTH * GROWTH


def test_a_large_frame_takes_no_byte_of_the_next_one():
    buffer = begun(BASE_BYTES + 10)
    buffer.grant(buffer.make_room())
    assert len(buffer.writable()) == 14


def test_a_frame_that_exceeds_the_grant_of_an_earlier_one_holds_little_until_it_has_its_own():
    buffer = ReceiveBuffer()
    receive(buffer, frame(bytes(BASE_BYTES * 9)), [4096])
    begun(BASE_BYTES * 20, buffer)
    assert buffer._end == AHEAD_BYTES
    needed = buffer.make_room()
    assert needed == BASE_BYTES * 19 + 4
    buffer.shrink()
    assert size_of(buffer) == AHEAD_BYTES
    assert buffer.make_room() == needed
    buffer.grant(needed)
    assert len(buffer.writable()) == AHEAD_BYTES * (GROWTH - 1)


def test_a_large_buffer_can_be_spared_when_it_is_not_needed_any_more():
    buffer = ReceiveBuffer()
    receive(buffer, frame(bytes(BASE_BYTES * 3)), [4096])
    assert size_of(buffer) > BASE_BYTES
    receive(buffer, frame(b"small") * (SHRINK_AFTER - 1), [9])
    assert buffer.make_room() == -1
    buffer.shrink()
    assert (size_of(buffer), buffer.make_room()) == (BASE_BYTES, 0)
