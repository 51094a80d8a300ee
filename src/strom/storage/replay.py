"""Working out from the log what its producers did."""

from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerStates
from strom.storage.segment import Segment
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.records import read_marker


def replay_segment(
    segment: Segment, producers: ProducerStates, start: int
) -> list[AbortedTransaction]:
    """Tell producers' memory what a segment holds from an offset on; returns the aborts in it."""
    aborted: list[AbortedTransaction] = []
    span = segment.locate(start) if start > segment.base_offset else None
    position = (
        span.position if span else (0 if start <= segment.base_offset else segment.size_bytes)
    )
    for at, header in segment.headers(position):
        marker = None
        if header.is_control:
            marker = read_marker(segment.read(at, header.size_bytes), 0, header)
        completed = producers.update(header, marker)
        if completed is not None and completed.aborted:
            first_open = producers.first_open_offset
            stable = header.next_offset if first_open is None else first_open
            aborted.append(
                AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, stable
                )
            )
    return aborted


def rebuild_aborted(state: LogState, segments: list[Segment]) -> None:
    """Tell segments, neighbours in order, of the aborts in them, from the log itself."""
    found = state.snapshots.newest(segments[0].base_offset)
    producers, start = found or (ProducerStates(), state.segments.first.base_offset)
    for segment in state.segments.since(start):
        aborted = replay_segment(segment, producers, start)
        if segment.base_offset >= segments[0].base_offset:
            segment.aborted = aborted
        if segment is segments[-1]:
            break
