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
    buffer.make_room()
    assert (buffer.start, unread(buffer)) == (0, b"6789")
    assert buffer.room == SMALL_BYTES - 4


def test_it_is_full_when_nothing_can_be_received_or_moved():
    buffer = FrameBuffer()
    fill(buffer, bytes(SMALL_BYTES))
    assert buffer.is_full
    buffer.start = 1
    assert (buffer.is_full, buffer.room) == (False, 0)
    buffer.make_room()
    assert buffer.room == 1


def test_it_grows_and_shrinks_and_keeps_what_has_come():
    buffer = FrameBuffer()
    fill(buffer, b"12head")
    buffer.start = 2
    buffer.grow()
    assert (buffer.is_large, unread(buffer), buffer.room) == (True, b"head", LARGE_BYTES - 4)
    fill(buffer, bytes(SMALL_BYTES))
    buffer.start = SMALL_BYTES
    buffer.shrink()
    assert (buffer.is_large, unread(buffer), buffer.room) == (False, bytes(4), SMALL_BYTES - 4)


def test_it_fits_a_small_one_if_there_is_room_for_more():
    buffer = FrameBuffer()
    buffer.grow()
    sizes = (SMALL_BYTES - 1, 1, 1)
    fits = []
    for size in sizes:
        fill(buffer, bytes(size))
        fits.append(buffer.fits_small)
    assert fits == [True, False, False]


def test_it_is_needed_if_more_was_received_at_once_than_a_small_one_holds():
    buffer = FrameBuffer()
    fill(buffer, bytes(SMALL_BYTES))
    buffer.grow()
    buffer.start = buffer.end
    buffer.make_room()
    assert buffer.is_needed(), "it has filled a small one"
    assert not buffer.is_needed(), "nothing since"
    fill(buffer, bytes(SMALL_BYTES - 1))
    assert not buffer.is_needed()
