"""Idempotent producers: what is a duplicate, what is a gap, and who is fenced."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import batch
from tests.conformance.calls import Topic, end_offset, new_producer_id, produce
from tests.conformance.raw import RawClient

Send = Callable[..., tuple[ErrorCode, int]]
REFUSED = -1


@pytest.fixture
def topic_of_two(make_topic: Callable[..., Topic]) -> Topic:
    return make_topic(2)


@pytest.fixture
def send(client: RawClient, topic_of_two: Topic) -> Send:
    """Sends `count` records from a sequence number on; gives the error code and the offset."""
    own_id = new_producer_id(client)

    def send_batch(
        sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = own_id, **options: Any
    ) -> tuple[ErrorCode, int]:
        values = [b"value"] * count
        records = batch(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)
        answer = produce(client, topic_of_two, records, **options)
        return answer.error_code, answer.base_offset

    return send_batch


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_repeated_batch_is_answered_with_its_first_offset_and_kept_once(
    client: RawClient, topic_of_two: Topic, send: Send, acks: int
) -> None:
    assert send(0, count=3, acks=acks) == (ErrorCode.none, 0)
    assert send(3, acks=acks) == (ErrorCode.none, 3)
    assert send(0, count=3, acks=acks) == (ErrorCode.none, 0)
    assert send(3, acks=acks) == (ErrorCode.none, 3)
    assert end_offset(client, topic_of_two) == 4


def test_the_last_five_batches_are_remembered(
    client: RawClient, topic_of_two: Topic, send: Send
) -> None:
    for sequence in range(7):
        send(sequence)
    assert [send(sequence)[1] for sequence in range(2, 7)] == [2, 3, 4, 5, 6]
    assert send(1) == (ErrorCode.out_of_order_sequence_number, REFUSED)
    assert send(0) == (ErrorCode.out_of_order_sequence_number, REFUSED)
    assert end_offset(client, topic_of_two) == 7


@pytest.mark.parametrize("version", [3, 7, 12])
def test_a_gap_is_out_of_order(send: Send, version: int) -> None:
    send(0)
    assert send(2, version=version) == (ErrorCode.out_of_order_sequence_number, REFUSED)
    assert send(1) == (ErrorCode.none, 1)


def test_part_of_an_earlier_batch_is_out_of_order(send: Send) -> None:
    send(0, count=3)
    assert send(0, count=2) == (ErrorCode.out_of_order_sequence_number, REFUSED)
    assert send(1, count=2) == (ErrorCode.out_of_order_sequence_number, REFUSED)


def test_partitions_have_sequences_of_their_own(send: Send) -> None:
    assert send(0, partition=0) == (ErrorCode.none, 0)
    assert send(0, partition=1) == (ErrorCode.none, 0)


def test_producers_have_sequences_of_their_own(client: RawClient, send: Send) -> None:
    assert send(0) == (ErrorCode.none, 0)
    assert send(0, producer_id=new_producer_id(client)) == (ErrorCode.none, 1)


def test_an_unknown_producer_may_start_anywhere(client: RawClient, send: Send) -> None:
    unknown = new_producer_id(client)
    assert send(5, producer_id=unknown) == (ErrorCode.none, 0)
    assert send(6, producer_id=unknown) == (ErrorCode.none, 1)


def test_a_newer_epoch_starts_at_zero_and_fences_the_older(send: Send) -> None:
    send(0)
    assert send(5, epoch=1) == (ErrorCode.out_of_order_sequence_number, REFUSED)
    assert send(0, epoch=1) == (ErrorCode.none, 1)
    assert send(1, epoch=0) == (ErrorCode.invalid_producer_epoch, REFUSED)
    assert send(0, epoch=0) == (ErrorCode.invalid_producer_epoch, REFUSED)
    assert send(1, epoch=1) == (ErrorCode.none, 2)


def test_a_producer_id_needs_a_sequence_number(send: Send) -> None:
    send(0)
    assert send(-1) == (ErrorCode.invalid_record, REFUSED)


def test_a_producer_id_needs_an_epoch(send: Send) -> None:
    send(0)
    assert send(1, epoch=-1) == (ErrorCode.invalid_producer_epoch, REFUSED)


def test_a_duplicate_keeps_its_append_time(
    client: RawClient, make_topic: Callable[..., Topic]
) -> None:
    topic = make_topic(configs={"message.timestamp.type": "LogAppendTime"})
    records = batch(b"x", producer_id=new_producer_id(client), epoch=0, sequence=0)
    first, second = (produce(client, topic, records) for _ in range(2))
    assert first.base_offset == second.base_offset == 0
    assert first.log_append_time == second.log_append_time
