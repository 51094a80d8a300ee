"""The receive buffer of a queue client."""

from strom.server.amqp.receiving import LARGE_BYTES, SMALL_BYTES, FrameBuffer


def fill(buffer: FrameBuffer, data: bytes) -> None:
    buffer.writable()[: len(data)] = data
    buffer.received(len(data))


def unread(buffer: FrameBuffer) -> bytes:
    return bytes(buffer.view[buffer.start : buffer.end])


def test_what_is_left_moves_to_the_front():
    buffer = FrameBuffer()
    fill(buffer, b"0123456789")
    buffer.start = 6
    buffer.make_room(100)
    assert (buffer.start, unread(buffer)) == (0, b"6789")
    assert buffer.room == SMALL_BYTES - 4


def test_it_grows_for_a_large_frame_and_keeps_what_has_come():
    buffer = FrameBuffer()
    fill(buffer, b"head")
    buffer.make_room(LARGE_BYTES + 1)
    assert unread(buffer) == b"head"
    assert buffer.room >= LARGE_BYTES - 3


def test_a_buffer_that_was_filled_at_one_go_grows_up_to_a_limit():
    buffer = FrameBuffer()
    sizes = []
    for _ in range(5):
        fill(buffer, bytes(buffer.room))
        buffer.start = buffer.end
        buffer.make_room(7)
        sizes.append(buffer.room)
    assert sizes == [4 * SMALL_BYTES, LARGE_BYTES, LARGE_BYTES, LARGE_BYTES, LARGE_BYTES]
