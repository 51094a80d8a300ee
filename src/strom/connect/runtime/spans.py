"""Which of the consumer's messages are of which partition."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from confluent_kafka import Message

from strom.connect.api import TopicPartition


class Span(NamedTuple):
    """Messages of one partition that follow each other, from `start` up to before `end`."""

    place: TopicPartition
    start: int
    end: int


def spans_of(messages: Sequence[Message]) -> list[Span]:
    """All messages, span by span."""
    # Calls of C by C: there are millions of messages, and a batch mostly is of one partition.
    partitions = list(map(Message.partition, messages))
    topics = list(map(Message.topic, messages))
    count = len(messages)
    if count and partitions.count(partitions[0]) == count and topics.count(topics[0]) == count:
        return [Span(TopicPartition(topics[0], partitions[0]), 0, count)]
    spans, start = [], 0
    for (topic, partition), group in groupby(zip(topics, partitions, strict=True)):
        end = start + sum(1 for _ in group)
        spans.append(Span(TopicPartition(topic, partition), start, end))
        start = end
    return spans
