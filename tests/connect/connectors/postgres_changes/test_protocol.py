"""Messages are cut right however they arrive; logins are those of the specifications."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.connect.connectors.postgres_changes import protocol
from strom.connect.connectors.postgres_changes.pgoutput import Begin, Commit
from strom.connect.connectors.postgres_changes.positions import Position, StreamProgress
from strom.connect.connectors.postgres_changes.protocol import (
    Keepalive,
    MessageReader,
    ReplicationProtocolError,
    ServerError,
    XLogData,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(
    bodies=st.lists(st.binary(max_size=20), max_size=6),
    cuts=st.lists(st.integers(0, 150), max_size=5),
)
def test_messages_are_the_same_however_they_are_cut(bodies, cuts) -> None:
    stream = b"".join(protocol.message(b"d", body) for body in bodies)
    reader = MessageReader()
    found = []
    start = 0
    for end in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        found += [bytes(message.body) for message in reader.feed(stream[start:end])]
        start = end
    assert found == bodies


def test_a_length_that_cannot_be_is_reported() -> None:
    for size in (b"\0\0\0\3", b"\xff\xff\xff\xff"):
        with pytest.raises(ReplicationProtocolError):
            MessageReader().feed(b"d" + size)


def test_errors_rows_and_copied_data_are_read() -> None:
    error = protocol.parse_error(memoryview(b"SERROR\0C55006\0Mslot is active\0Dfor PID 1\0\0"))
    assert error == ServerError("55006", "slot is active", "for PID 1")
    row = protocol.parse_row(memoryview(b"\0\2\0\0\0\1x\xff\xff\xff\xff"))
    assert row == ["x", None]
    data = b"w" + (1).to_bytes(8) + (2).to_bytes(8) + bytes(8) + b"rest"
    assert protocol.parse_copied(memoryview(data)) == XLogData(1, 2, memoryview(b"rest"))
    alive = b"k" + (7).to_bytes(8) + bytes(8) + b"\1"
    assert protocol.parse_copied(memoryview(alive)) == Keepalive(7, True)
    assert protocol.parse_copied(memoryview(b"?")) is None
    with pytest.raises(ReplicationProtocolError):
        protocol.parse_copied(memoryview(b"w123"))


def test_status_has_all_three_places() -> None:
    sent = protocol.status(9, 8, NOW, ask=True)
    assert sent[:1] == b"d"
    assert [int.from_bytes(sent[at : at + 8]) for at in (6, 14, 22)] == [9, 8, 8]
    assert sent[-1] == 1


@given(st.integers(0, 2**64 - 1))
def test_places_in_the_log_are_read_as_they_are_written(lsn) -> None:
    assert protocol.parse_lsn(protocol.format_lsn(lsn)) == lsn


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6), data=st.data())
def test_any_position_leads_on_to_what_comes_after_it(sizes, data) -> None:
    """Every change of a stream of transactions, from every position in it, exactly once."""
    stream: list[object] = []
    for number, size in enumerate(sizes, 1):
        stream += [Begin(number * 10, NOW, number), *[(number, n) for n in range(size)]]
        stream += [Commit(number * 10, number * 10 + 1, NOW)]

    def follow(position: Position) -> list[tuple[object, Position]]:
        progress = StreamProgress(position)
        seen: list[tuple[object, Position]] = []
        for event in stream:
            if isinstance(event, Begin):
                if event.commit_lsn < position.lsn:
                    continue  # the server does not send it again
                progress.begin(event)
            elif isinstance(event, Commit):
                if progress.transaction is not None:
                    end = progress.commit(event)
                    if seen:
                        seen[-1] = (seen[-1][0], end)
            elif progress.transaction is not None and progress.change():
                seen.append((event, progress.after(1, is_last=True)))
        return seen

    whole = follow(Position(0))
    assert [change for change, _ in whole] == [one for one in stream if type(one) is tuple]
    if whole:
        cut = data.draw(st.integers(0, len(whole) - 1))
        position = Position.from_offset(whole[cut][1].to_offset())
        assert [change for change, _ in follow(position)] == [
            change for change, _ in whole[cut + 1 :]
        ]
