"""Records through transforms and converters: whole batches, or one by one to find the one that fails."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from confluent_kafka import Message

from strom.connect.api import (
    Header,
    RecordBatch,
    RetriableError,
    Schema,
    SinkRecord,
    SourceRecord,
    TopicPartition,
)
from strom.connect.api.record_batches import ColumnarRecords
from strom.connect.converters import Converter, make_converter, make_header_converter
from strom.connect.runtime.settings import CommonSettings, WorkerSettings, with_prefix
from strom.connect.transforms import Chain, make_chain
from strom.connect.transforms.contract import Part

_Columns = dict[Part, tuple[Schema | None, Sequence[Any]]]


class PartitionSpan(NamedTuple):
    """Consecutive messages of one partition in a batch, from `start` to before `end`."""

    partition: TopicPartition
    start: int
    end: int


def spans_of(messages: Sequence[Message]) -> list[PartitionSpan]:
    """All messages of a batch, by partition, in their order."""
    # C calling C: there are millions of messages, and most batches are of one partition.
    partitions = list(map(Message.partition, messages))
    topics = list(map(Message.topic, messages))
    count = len(messages)
    if count and partitions.count(partitions[0]) == count and topics.count(topics[0]) == count:
        return [PartitionSpan(TopicPartition(topics[0], partitions[0]), 0, count)]
    spans, start = [], 0
    for (topic, partition), group in groupby(zip(topics, partitions, strict=True)):
        end = start + sum(1 for _ in group)
        spans.append(PartitionSpan(TopicPartition(topic, partition), start, end))
        start = end
    return spans


class ProducerRecord(NamedTuple):
    """A record in bytes, as the producer takes it."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int
    timestamp: int
    headers: list[tuple[str, bytes | None]] | None


ANY_PARTITION = -1
NOW = 0


class StageError(Exception):
    """A record failed at a stage of its conversion; `__cause__` is the reason."""

    def __init__(self, stage: str, executor: str) -> None:
        super().__init__(stage)
        self.stage = stage
        self.executor = executor


@dataclass(frozen=True)
class Conversion:
    """Converts a connector's records to bytes and back."""

    key: Converter
    value: Converter
    header: Converter
    chain: Chain | None

    def outgoing(self, records: Iterable[SourceRecord]) -> list[ProducerRecord]:
        """Convert a source's records for the producer: all of them, or raise."""
        chain, key_bytes, value_bytes = self.chain, self.key.to_bytes, self.value.to_bytes
        converted: list[ProducerRecord] = []
        add, new = converted.append, tuple.__new__
        for record in records:
            if chain is not None:
                changed = chain(record)
                if changed is None:
                    continue
                record = changed
            _, _, topic, value, schema, key, key_schema, partition, timestamp, headers = record
            if key is not None or key_schema is not None:
                key = key_bytes(topic, key_schema, key)
            if value is not None or schema is not None:
                value = value_bytes(topic, schema, value)
            number = ANY_PARTITION if partition is None else partition
            stamp = NOW if timestamp is None else timestamp
            converted_headers = self._header_bytes(topic, headers) if headers else None
            # What ProducerRecord(…) does, without the cost of its call for each of millions.
            add(new(ProducerRecord, (topic, value, key, number, stamp, converted_headers)))
        return converted

    def incoming(
        self, messages: Sequence[Message], spans: Sequence[PartitionSpan]
    ) -> Sequence[SinkRecord]:
        """Convert consumed messages for a sink: all of them, or raise.

        By columns where possible, which is several times as fast; the records are the same.
        """
        columns = self.in_columns(messages, spans)
        return self.one_after_the_other(messages) if columns is None else columns

    def in_columns(
        self, messages: Sequence[Message], spans: Sequence[PartitionSpan]
    ) -> ColumnarRecords | None:
        """Convert by columns; None if a converter or transform cannot, or a message has headers."""
        transforms = () if self.chain is None else self.chain.on_columns
        if transforms is None or any(map(Message.headers, messages)):
            return None
        parts = []
        for partition, start, end in spans:
            some = messages[start:end]
            converted = self._columns(partition.topic, some)
            if converted is None:
                return None
            for transform in transforms:
                schema, values = converted[transform.part]
                converted[transform.part] = transform.all_changed(schema, values)
            key_schema, keys = converted[Part.KEY]
            schema, values = converted[Part.VALUE]
            offsets = list(map(Message.offset, some))
            stamps = partial(_timestamps, some)
            parts.append(
                RecordBatch(
                    partition,
                    offsets,
                    values,
                    schema,
                    keys=keys,
                    key_schema=key_schema,
                    timestamps=stamps,
                )
            )
        return ColumnarRecords(parts)

    def _columns(self, topic: str, messages: Sequence[Message]) -> _Columns | None:
        values = self.value.all_from_bytes(topic, list(map(Message.value, messages)))
        if values is None:
            return None
        keys = self.key.all_from_bytes(topic, list(map(Message.key, messages)))
        return None if keys is None else {Part.KEY: keys, Part.VALUE: values}

    def one_after_the_other(self, messages: Iterable[Message]) -> list[SinkRecord]:
        """Convert message by message: always possible, and the reference for `in_columns`."""
        chain, from_key, from_value = self.chain, self.key.from_bytes, self.value.from_bytes
        no_key = from_key("", None)  # which is the same for every topic
        converted: list[SinkRecord] = []
        add, new = converted.append, tuple.__new__
        for message in messages:
            topic, data, headers = message.topic(), message.key(), message.headers()
            key_schema, key = no_key if data is None else from_key(topic, data)
            schema, value = from_value(topic, message.value())
            # What SinkRecord(…) does, without the cost of its call for each of millions.
            record: SinkRecord = new(
                SinkRecord,
                (
                    topic,
                    message.partition(),
                    message.offset(),
                    value,
                    schema,
                    key,
                    key_schema,
                    message.timestamp()[1],
                    self._headers(topic, headers) if headers else (),
                    None,
                ),
            )
            if chain is not None:
                changed = _from_topic(topic, chain(record))
                if changed is None:
                    continue
                record = changed
            add(record)
        return converted

    def close(self) -> None:
        """Close what the converters have opened."""
        for converter in (self.key, self.value, self.header):
            converter.close()

    def one_outgoing(self, record: SourceRecord) -> ProducerRecord | None:
        """Convert one record of a source; StageError names the stage that failed."""
        changed = self._transformed(record)
        if changed is None:
            return None
        topic, schema, value = changed.topic, changed.value_schema, changed.value
        _at("KEY_CONVERTER", self.key, self.key.to_bytes, topic, changed.key_schema, changed.key)
        _at("VALUE_CONVERTER", self.value, self.value.to_bytes, topic, schema, value)
        _at("HEADER_CONVERTER", self.header, self._header_bytes, topic, changed.headers)
        # No stage fails, so all of them together do not.
        return replace(self, chain=None).outgoing([changed])[0]

    def one_incoming(self, message: Message) -> SinkRecord | None:
        """Convert one record for a sink; StageError names the stage that failed."""
        topic, headers = message.topic(), message.headers() or ()
        _at("KEY_CONVERTER", self.key, self.key.from_bytes, topic, message.key())
        _at("VALUE_CONVERTER", self.value, self.value.from_bytes, topic, message.value())
        _at("HEADER_CONVERTER", self.header, self._headers, topic, headers)
        [record] = replace(self, chain=None).one_after_the_other([message])
        return _from_topic(topic, self._transformed(record))

    def _transformed(self, record: Any) -> Any:
        return _at("TRANSFORMATION", self.chain, self.chain, record) if self.chain else record

    def _header_bytes(
        self, topic: str, headers: Sequence[Header]
    ) -> list[tuple[str, bytes | None]]:
        convert = self.header.to_bytes
        return [(name, convert(topic, schema, value)) for name, value, schema in headers]

    def _headers(
        self, topic: str, headers: Iterable[tuple[str, bytes | None]]
    ) -> tuple[Header, ...]:
        converted = []
        for name, data in headers:
            schema, value = self.header.from_bytes(topic, data)
            converted.append(Header(name, value, schema))
        return tuple(converted)


def _timestamps(messages: Sequence[Message]) -> list[int | None]:
    return [message.timestamp()[1] for message in messages]


def _from_topic(topic: str, record: SinkRecord | None) -> SinkRecord | None:
    """A transformed record that keeps the topic it was read from."""
    if record is None or record.topic == topic:
        return record
    return record._replace(original_topic=topic)


def _at(stage: str, executor: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except RetriableError:
        raise
    except Exception as error:
        raise StageError(stage, type(executor).__qualname__) from error


def make_conversion(
    config: Mapping[str, str],
    common: CommonSettings,
    worker: WorkerSettings,
    texts: Mapping[str, str],
) -> Conversion:
    """Make a connector's conversion; `texts` are the worker's settings for its default converters."""

    def chosen(setting: str, own: str | None, default: str) -> tuple[str, dict[str, str]]:
        """As in Kafka, a converter that the connector names gets no settings of the worker."""
        prefix = f"{setting}."
        return (own, with_prefix(config, prefix)) if own else (default, with_prefix(texts, prefix))

    key = chosen("key.converter", common.key_converter, worker.key_converter)
    value = chosen("value.converter", common.value_converter, worker.value_converter)
    header = chosen("header.converter", common.header_converter, worker.header_converter)
    return Conversion(
        make_converter(*key, is_key=True),
        make_converter(*value, is_key=False),
        make_header_converter(*header),
        make_chain(config) if common.transforms else None,
    )
