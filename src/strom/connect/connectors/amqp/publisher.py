"""Publishes batches of messages with publisher confirms.

pika's connection runs in its own thread, so that heartbeats continue while the task is busy, and confirms
arrive while further messages are sent.
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import pika

from strom.connect.api import ConnectError
from strom.connect.connectors.amqp.connection import (
    CONNECT_S,
    AmqpConnectionSettings,
    to_connect_error,
)


class OutgoingMessage(NamedTuple):
    exchange: str
    routing_key: str
    body: bytes
    properties: Any


class PublishResult(NamedTuple):
    """The broker's response to a batch, by the messages' indexes."""

    confirmed: set[int]
    returned: dict[int, str]
    """Unroutable messages (`basic.return`), with the reason."""
    refused: set[int]
    """Messages that the broker rejected (`basic.nack`)."""


class _Batch:
    """Messages in flight, and the confirms so far."""

    def __init__(self, messages: Sequence[OutgoingMessage], first_tag: int) -> None:
        self.messages = messages
        self.first_tag = first_tag
        self.result = PublishResult(set(), {}, set())
        self._open = set(range(len(messages)))

    @property
    def is_settled(self) -> bool:
        return not self._open

    def settle(self, tag: int, *, multiple: bool, taken: bool) -> None:
        last = tag - self.first_tag
        places = {place for place in self._open if place <= last} if multiple else {last}
        self._open -= places
        (self.result.confirmed if taken else self.result.refused).update(places)

    def mark_returned(self, message_id: str | None, reason: str) -> None:
        """Mark a message as returned: the first unconfirmed one with its id."""
        for place in sorted(self._open - self.result.returned.keys()):
            if self.messages[place].properties.message_id == message_id:
                self.result.returned[place] = reason
                return


class Publisher:
    """A connection with one channel in confirm mode."""

    def __init__(self, settings: AmqpConnectionSettings, *, mandatory: bool, wait_s: float) -> None:
        self._url = settings.url
        self._mandatory = mandatory
        self._wait_s = wait_s
        self._changed = threading.Condition()
        self._channel: Any = None
        self._error: BaseException | None = None
        self._batch: _Batch | None = None
        self._next_tag = 1
        self._ended = False
        self._connection = pika.SelectConnection(
            settings.parameters(),
            on_open_callback=self._on_open,
            on_open_error_callback=lambda _, error: self._fail(error),
            on_close_callback=lambda _, error: self._fail(error),
        )
        self._thread = threading.Thread(target=self._run, name="amqp-publisher", daemon=True)
        self._thread.start()
        with self._changed:
            opened = self._changed.wait_for(lambda: self._channel or self._error, CONNECT_S * 2)
        if not opened or self._error is not None:
            self.close()
            raise to_connect_error(self._reason("no response"), self._url)

    def publish(self, messages: Sequence[OutgoingMessage]) -> PublishResult:
        """Publish in order, and wait for the confirms of all messages.

        If the connection is lost meanwhile, PublishInterrupted has the confirms so far.
        """
        with self._changed:
            if self._error is not None:
                raise PublishInterrupted(
                    to_connect_error(self._error, self._url), PublishResult(set(), {}, set())
                )
            batch = self._batch = _Batch(messages, self._next_tag)
            self._next_tag += len(messages)
            self._connection.ioloop.add_callback_threadsafe(lambda: self._send(batch))
            settled = self._changed.wait_for(
                lambda: batch.is_settled or self._error is not None, self._wait_s
            )
            if batch.is_settled:
                return batch.result
            error = self._reason("the broker did not confirm in time")
            if not settled:
                self._error = error  # a late confirm would belong to another batch
            raise PublishInterrupted(to_connect_error(error, self._url), batch.result)

    def close(self) -> None:
        with self._changed:
            if not self._ended:
                self._connection.ioloop.add_callback_threadsafe(self._close)
        self._thread.join(CONNECT_S)

    def _reason(self, silence: str) -> BaseException:
        return self._error or TimeoutError(silence)

    def _run(self) -> None:
        try:
            self._connection.ioloop.start()
        except Exception as error:  # noqa: BLE001 - raised by the next publish
            self._fail(error)
        finally:
            with self._changed:
                self._ended = True
                self._connection.ioloop.close()

    def _close(self) -> None:
        if self._connection.is_closed or self._connection.is_closing:
            self._connection.ioloop.stop()
        else:
            self._connection.close()

    def _on_open(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(lambda _, error: self._fail(error))
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._ready(channel))

    def _ready(self, channel: Any) -> None:
        with self._changed:
            self._channel = channel
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if self._error is None:
                self._error = error
            self._changed.notify_all()
        if self._connection.is_closed:
            self._connection.ioloop.stop()

    def _send(self, batch: _Batch) -> None:
        try:
            for message in batch.messages:
                self._channel.basic_publish(*message, mandatory=self._mandatory)
        except Exception as error:  # noqa: BLE001 - raised by publish
            self._fail(error)

    def _on_return(self, _: Any, returned: Any, properties: Any, __: bytes) -> None:
        with self._changed:
            if self._batch is not None:
                self._batch.mark_returned(properties.message_id, returned.reply_text)

    def _on_confirm(self, frame: Any) -> None:
        said = frame.method
        with self._changed:
            if self._batch is not None and said.delivery_tag >= self._batch.first_tag:
                taken = type(said).__name__ == "Ack"
                self._batch.settle(said.delivery_tag, multiple=said.multiple, taken=taken)
                if self._batch.is_settled:
                    self._changed.notify_all()


class PublishInterrupted(Exception):
    """The connection was lost; `result` has the confirms until then."""

    def __init__(self, cause: ConnectError, result: PublishResult) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.result = result
