"""Rebuilding producer state and aborted transactions from the batches of a log."""

import logging

from strom.model.errors import CorruptData, MalformedRecords
from strom.storage.damage import DamagedRange
from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerStates
from strom.storage.segment import LogSegment
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import BatchHeader
from strom.wire.kafka.records import Marker, read_marker

logger = logging.getLogger(__name__)


def replay_segment(
    segment: LogSegment, producers: ProducerStates, start: int
) -> list[AbortedTransaction]:
    """Update producers with the batches of a segment; returns the aborted transactions."""
    aborted: list[AbortedTransaction] = []
    position = segment.position_from(start) if start > segment.base_offset else 0
    damage = [each for each in segment.damage if each.first_offset >= start]
    for at, header in segment.headers(position):
        while damage and damage[0].position <= at:
            _check_decided(segment, producers, damage.pop(0))
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
    for each in damage:
        _check_decided(segment, producers, each)
    return aborted


def _check_decided(segment: LogSegment, producers: ProducerStates, damage: DamagedRange) -> None:
    """CorruptData if damage may hide the end of a transaction.

    Its records would become part of the producer's next transaction, and aborted ones be committed.
    """
    if producers.first_open_offset is not None:
        raise CorruptData(
            f"{segment.log_path} has a damaged batch at offset {damage.first_offset}, within the "
            f"transaction that began at offset {producers.first_open_offset}: whether it was "
            "committed or aborted is unknown"
        )


def _read_marker(segment: LogSegment, position: int, header: BatchHeader) -> Marker | None:
    """The marker in a control batch, None if it cannot be decoded."""
    data = segment.read(position, header.size_bytes)
    segment.verify(position, header, data)  # a changed bit could turn an abort into a commit
    try:
        return read_marker(data, 0, header)
    except MalformedRecords as error:
        logger.warning("%s: ignored the marker at %d: %s", segment.log_path, position, error)
        return None


def rebuild_aborted(state: LogState, segments: list[LogSegment]) -> None:
    """Rebuild the transaction indexes of segments, in their order, from the markers in the log.

    It needs no snapshot: what retention or compaction has removed of a transaction is not read either.
    CorruptData if damage may hide the end of a transaction.
    """
    found = state.snapshots.newest(segments[0].base_offset)
    producers, start = found or (ProducerStates(), state.segments.first.base_offset)
    for segment in state.segments.since(start):
        stored = _stored_end(state, segment)
        if stored is not None:
            producers, aborted = stored
        else:
            aborted = replay_segment(segment, producers, start)
            _check_complete(state, segment, producers)
        if segment in segments:
            segment.transactions.replace(aborted)
        if segment is segments[-1]:
            break


def _check_complete(state: LogState, segment: LogSegment, producers: ProducerStates) -> None:
    """CorruptData if the end of a transaction may be in what a closed segment has lost at its end.

    After a clean stop the ends of segments are not checked.
    """
    first_open = producers.first_open_offset
    if segment.active or first_open is None or state.may_have_gaps(segment.base_offset):
        return
    end = segment.stored_end()
    if end < segment.next_offset:
        raise CorruptData(
            f"offsets {end} to {segment.next_offset - 1} are missing at the end of "
            f"{segment.log_path}, within the transaction that began at offset {first_open}: whether "
            "it was committed or aborted is unknown"
        )


def _stored_end(
    state: LogState, segment: LogSegment
) -> tuple[ProducerStates, list[AbortedTransaction]] | None:
    """The producers at the end of a damaged segment and its aborted transactions, if both are on disk.

    A flush saves them when the segment is closed. What they say of a transaction with a damaged batch
    cannot be read from the batches any more.
    """
    if segment.active or not segment.damage:
        return None
    found = state.snapshots.newest(segment.next_offset)
    if found is None or found[1] != segment.next_offset:
        return None
    try:
        return found[0], segment.transactions.read()
    except CorruptData:
        return None
