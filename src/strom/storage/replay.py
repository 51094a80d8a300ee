"""Rebuilding producer state and aborted transactions from the batches of a log."""

import logging

from strom.model.errors import MalformedRecords
from strom.storage.batch_walk import DamagedBatch
from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerStates
from strom.storage.segment import LogSegment
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import BatchHeader, has_valid_checksum
from strom.wire.kafka.records import Marker, read_marker

logger = logging.getLogger(__name__)


def replay_segment(
    segment: LogSegment, producers: ProducerStates, start: int
) -> list[AbortedTransaction]:
    """Update producers with the batches of a segment; returns the aborted transactions."""
    aborted: list[AbortedTransaction] = []
    span = segment.locate(start) if start > segment.base_offset else None
    position = (
        span.position if span else (0 if start <= segment.base_offset else segment.size_bytes)
    )
    for at, header in segment.headers(position):
        marker = None
        if header.is_control:
            marker = _read_marker(segment, at, header)
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


def _read_marker(segment: LogSegment, position: int, header: BatchHeader) -> Marker | None:
    """The marker in a control batch, None if it cannot be decoded."""
    data = segment.read(position, header.size_bytes)
    try:
        return read_marker(data, 0, header)
    except MalformedRecords as error:
        if not has_valid_checksum(data, 0, header):
            raise DamagedBatch(
                position, f"{segment.log_path} has a batch with an invalid checksum"
            ) from None
        logger.warning("%s: ignored the marker at %d: %s", segment.log_path, position, error)
        return None


def rebuild_aborted(state: LogState, segments: list[LogSegment]) -> None:
    """Rebuild the transaction indexes of adjacent segments from the log."""
    found = state.snapshots.newest(segments[0].base_offset)
    producers, start = found or (ProducerStates(), state.segments.first.base_offset)
    for segment in state.segments.since(start):
        aborted = replay_segment(segment, producers, start)
        if segment.base_offset >= segments[0].base_offset:
            segment.aborted = aborted
        if segment is segments[-1]:
            break
