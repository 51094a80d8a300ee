"""AmqpSource: reads messages of queues, at least once.

A message is acknowledged when its record is durable in Kafka. After a failure the broker redelivers
unacknowledged messages, so a record may be duplicated; the key, the message id, identifies it.
"""

import contextlib
import itertools
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pika
from pika.exceptions import AMQPError

from strom.connect.api import (
    PoisonRecord,
    RetriableError,
    Schema,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
)
from strom.connect.api.schema import BYTES, OPTIONAL_STRING, STRING
from strom.connect.connectors.amqp.connection import AmqpConnectionSettings, to_connect_error
from strom.connect.connectors.amqp.properties import to_headers
from strom.connect.setting_forms import boolean, choice, integer, string, strings

IDLE_S = 0.2
_sessions = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class AmqpSourceSettings(AmqpConnectionSettings):
    """Settings of the AmqpSource."""

    queues: tuple[str, ...] = strings("queues", "The queues to read.", required=True)
    topic: str = string("topic", "The topic; {queue} is the queue's name.", required=True)
    format: str = choice(
        "format",
        "How the body is converted: to bytes, a string, or the value of its JSON.",
        ("bytes", "text", "json"),
    )
    key: str = choice(
        "key",
        "The source of the record's key.",
        ("message-id", "correlation-id", "routing-key", "none"),
    )
    prefetch: int = integer(
        "prefetch",
        "The prefetch count: the unacknowledged messages per queue.",
        1000,
        maximum=65535,
    )
    batch_size: int = integer("batch.size", "The maximum number of records per poll.", 500)
    declare: bool = boolean(
        "declare", "Whether missing queues are declared, as durable; otherwise the task fails."
    )


class _Message(NamedTuple):
    queue: str
    delivery: Any
    properties: Any
    body: bytes


class AmqpSourceTask(SourceTask[AmqpSourceSettings]):
    """Consumes its queues, each on its own channel."""

    def __init__(self, settings: AmqpSourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._connection: Any = None
        self._channels: dict[str, Any] = {}
        self._session = 0
        self._arrived: deque[_Message] = deque()
        self._cancelled: str | None = None
        self._poison: PoisonRecord | None = None
        """A malformed message, raised by the next poll, after the records before it."""

    def start(self) -> None:
        self._connect()

    def poll(self) -> Sequence[SourceRecord]:
        """The messages received so far; after a lost connection, unacknowledged ones are redelivered."""
        if self._poison is not None:
            poison, self._poison = self._poison, None
            raise poison
        try:
            if self._connection is None:
                self._connect()
            self._connection.process_data_events(0 if self._arrived else IDLE_S)
            if self._cancelled is not None:
                raise RetriableError(
                    f"The queue {self._cancelled} was deleted, or moved to another node."
                )
            for queue, channel in self._channels.items():
                if not channel.is_open:  # pika's BlockingConnection does not raise it
                    raise RetriableError(
                        f"The broker closed the channel that consumes the queue {queue}."
                    )
        except (AMQPError, OSError) as error:
            self._disconnect()
            raise to_connect_error(error, self.settings.url) from error
        except RetriableError:
            self._disconnect()
            raise
        return self._records()

    def delivered(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Acknowledge the messages up to these offsets."""
        for partition, offset in offsets:
            # Delivery tags of an earlier connection are invalid: its messages are redelivered.
            if offset.get("session") == self._session:
                channel = self._channels.get(partition["queue"])
                with contextlib.suppress(AMQPError, OSError):  # the next poll raises it
                    if channel is not None:
                        channel.basic_ack(offset["tag"], multiple=True)

    def stop(self) -> None:
        """Close the connection; the broker requeues unacknowledged messages."""
        self._disconnect()

    def _connect(self) -> None:
        try:
            self._connection = pika.BlockingConnection(self.settings.parameters())
            self._session = next(_sessions)
            for queue in self.settings.queues:
                self._consume(queue)
        except (AMQPError, OSError) as error:
            self._disconnect()
            raise to_connect_error(error, self.settings.url) from error

    def _consume(self, queue: str) -> None:
        channel = self._connection.channel()
        if self.settings.declare:
            channel.queue_declare(queue, durable=True)
        channel.basic_qos(prefetch_count=self.settings.prefetch)
        channel.add_on_cancel_callback(lambda _: self._note_cancelled(queue))

        def arrive(_: Any, delivery: Any, properties: Any, body: bytes) -> None:
            self._arrived.append(_Message(queue, delivery, properties, body))

        channel.basic_consume(queue, arrive)
        self._channels[queue] = channel

    def _note_cancelled(self, queue: str) -> None:
        self._cancelled = queue

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._arrived.clear()
        self._channels.clear()
        self._cancelled = self._poison = None
        self._session = 0
        if connection is not None and connection.is_open:
            with contextlib.suppress(AMQPError, OSError):
                connection.close()

    def _records(self) -> list[SourceRecord]:
        records: list[SourceRecord] = []
        while self._arrived and len(records) < self.settings.batch_size:
            message = self._arrived.popleft()
            try:
                records.append(self._record(message))
            except (ValueError, RecursionError) as error:
                poison = PoisonRecord(
                    f"A message of the queue {message.queue} is not {self.settings.format}: {error}",
                    source_partition={"queue": message.queue},
                    source_offset=self._offset(message),
                )
                if not records:
                    raise poison from None
                self._poison = poison
                break
        return records

    def _record(self, message: _Message) -> SourceRecord:
        properties, delivery = message.properties, message.delivery
        value, schema = self._value(message.body)
        key = self._key(message)
        timestamp = properties.timestamp
        headers = to_headers(
            properties,
            exchange=delivery.exchange,
            routing_key=delivery.routing_key,
            redelivered=delivery.redelivered or None,
        )
        return SourceRecord(
            {"queue": message.queue},
            self._offset(message),
            self.settings.topic.replace("{queue}", message.queue),
            value,
            schema,
            key,
            None if key is None else OPTIONAL_STRING,
            timestamp=None if timestamp is None else int(timestamp) * 1000,
            headers=headers,
        )

    def _offset(self, message: _Message) -> dict[str, Any]:
        return {"session": self._session, "tag": message.delivery.delivery_tag}

    def _value(self, body: bytes) -> tuple[Any, Schema | None]:
        if self.settings.format == "bytes":
            return body, BYTES
        text = body.decode("utf-8")
        return (text, STRING) if self.settings.format == "text" else (json.loads(text), None)

    def _key(self, message: _Message) -> str | None:
        choices = {
            "message-id": message.properties.message_id,
            "correlation-id": message.properties.correlation_id,
            "routing-key": message.delivery.routing_key,
        }
        return choices.get(self.settings.key)


class AmqpSource(SourceConnector[AmqpSourceSettings]):
    """Messages of AMQP queues."""

    settings_class = AmqpSourceSettings
    task_class = AmqpSourceTask
    exactly_once = False  # an acknowledged message cannot be read again

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Assign the queues to tasks; each queue has one consumer, which preserves its order."""
        queues = self.settings.queues
        shares = [queues[number::max_tasks] for number in range(min(max_tasks, len(queues)))]
        return [{"queues": ",".join(share)} for share in shares]
