"""AmqpSink: publishes records to an exchange with publisher confirms, at least once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pika

from strom.connect.api import (
    PoisonRecord,
    RetriableError,
    SinkConnector,
    SinkContext,
    SinkRecord,
)
from strom.connect.connectors.amqp.connection import AmqpConnectionSettings
from strom.connect.connectors.amqp.properties import from_headers
from strom.connect.connectors.amqp.publisher import (
    OutgoingMessage,
    Publisher,
    PublishInterrupted,
    PublishResult,
)
from strom.connect.connectors.plain_json import to_json
from strom.connect.connectors.record_template import RecordTemplate
from strom.connect.connectors.sent_since_flush import UnbufferedSinkTask
from strom.connect.setting_forms import boolean, choice, integer, string

PERSISTENT = 2


@dataclass(frozen=True, kw_only=True)
class AmqpSinkSettings(AmqpConnectionSettings):
    """Settings of the AmqpSink."""

    exchange: str = string("exchange", "The exchange; the default exchange if empty.", "")
    routing_key: str = string(
        "routing.key",
        "The routing key, with the placeholders {topic}, {partition}, {key} and {FIELD}. For the default "
        "exchange: the name of the queue.",
        required=True,
    )
    persistent: bool = boolean("persistent", "Whether messages are persistent.", True)
    unroutable: str = choice(
        "unroutable",
        "What to do with an unroutable record: reject it as malformed, or drop it.",
        ("fail", "drop"),
    )
    confirm_timeout_ms: int = integer(
        "confirm.timeout.ms", "The timeout for the broker's confirms of a batch.", 30_000
    )

    def validate(self) -> Mapping[str, str]:
        problems = dict(super().validate())
        if (problem := RecordTemplate(self.routing_key).problem()) is not None:
            problems["routing.key"] = problem
        return problems


class AmqpSinkTask(UnbufferedSinkTask[AmqpSinkSettings]):
    """Publishes records, and returns when the broker has confirmed them."""

    def __init__(self, settings: AmqpSinkSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._template = RecordTemplate(settings.routing_key)
        self._publisher: Publisher | None = None

    def start(self) -> None:
        self._connected()

    def put(self, records: Sequence[SinkRecord]) -> None:
        places = [n for n, record in enumerate(records) if record not in self._sent]
        messages = [self._message(records[place], place) for place in places]
        if not messages:
            return
        try:
            result = self._connected().publish(messages)
        except PublishInterrupted as lost:
            self._remember(records, places, lost.result)
            self.stop()
            raise lost.cause from lost
        self._remember(records, places, result)
        if result.refused:
            raise RetriableError(f"{self.settings.url} rejected {len(result.refused)} messages.")
        if result.returned and self.settings.unroutable == "fail":
            place, reason = min(result.returned.items())
            key = messages[place].routing_key
            raise PoisonRecord(
                f"Unroutable: no queue is bound to the exchange `{self.settings.exchange}` for "
                f"the routing key `{key}`: {reason}",
                places[place],
            )
        self._sent.note_all(records)

    def stop(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def _connected(self) -> Publisher:
        if self._publisher is None:
            self._publisher = Publisher(
                self.settings,
                mandatory=self.settings.unroutable == "fail",
                wait_s=self.settings.confirm_timeout_ms / 1000,
            )
        return self._publisher

    def _remember(
        self, records: Sequence[SinkRecord], places: list[int], result: PublishResult
    ) -> None:
        taken = result.confirmed - result.returned.keys()
        self._sent.note_apart(records[places[number]] for number in taken)

    def _message(self, record: SinkRecord, place: int) -> OutgoingMessage:
        try:
            properties, headers = from_headers(record.headers)
            body, content_type = _body(record.value)
            routing_key = self._template.fill(record)
            if len(routing_key.encode()) > 255:
                raise ValueError(
                    f"The routing key {routing_key:.40}… exceeds the limit of 255 bytes"
                )
        except ValueError as error:
            raise PoisonRecord(str(error), place) from None
        topic, partition = record.origin
        properties.setdefault("message_id", f"{topic}-{partition}-{record.offset}")
        properties.setdefault("content_type", content_type)
        if record.timestamp is not None:
            properties["timestamp"] = record.timestamp // 1000
        if self.settings.persistent:
            properties["delivery_mode"] = PERSISTENT
        made = pika.BasicProperties(headers=headers or None, **properties)
        return OutgoingMessage(self.settings.exchange, routing_key, body, made)


def _body(value: Any) -> tuple[bytes, str]:
    """The body of a message and its content type; a record without a value has an empty body."""
    if isinstance(value, bytes):
        return value, "application/octet-stream"
    if isinstance(value, str):
        return value.encode(), "text/plain"
    return (b"" if value is None else to_json(value).encode()), "application/json"


class AmqpSink(SinkConnector[AmqpSinkSettings]):
    """Records published to an AMQP exchange."""

    settings_class = AmqpSinkSettings
    task_class = AmqpSinkTask
