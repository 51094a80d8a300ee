"""Publishing many messages at a time, and waiting for the broker's word on each of them.

pika's connection runs in a thread of its own: so heartbeats go on while the task is busy elsewhere,
and confirms come in while further messages go out.
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from strom.connect.api import ConnectError, RetriableError
from strom.connect.connectors.amqp.link import CONNECT_S, LinkSettings, told


class Message(NamedTuple):
    exchange: str
    routing_key: str
    body: bytes
    properties: Any


class Outcome(NamedTuple):
    """What the broker has said about a batch, by the messages' places in it."""

    confirmed: set[int]
    returned: dict[int, str]
    """Those that no queue wanted, and the reason."""
    refused: set[int]
    """Those that the broker did not take."""


class _Batch:
    """Messages on their way, and what was said about them so far."""

    def __init__(self, messages: Sequence[Message], first_tag: int) -> None:
        self.messages = messages
        self.first_tag = first_tag
        self.outcome = Outcome(set(), {}, set())
        self._open = set(range(len(messages)))

    @property
    def is_settled(self) -> bool:
        return not self._open

    def settle(self, tag: int, *, multiple: bool, taken: bool) -> None:
        last = tag - self.first_tag
        places = {place for place in self._open if place <= last} if multiple else {last}
        self._open -= places
        (self.outcome.confirmed if taken else self.outcome.refused).update(places)

    def give_back(self, message_id: str | None, reason: str) -> None:
        """Note a message as returned: the first open one with its id."""
        for place in sorted(self._open - self.outcome.returned.keys()):
            if self.messages[place].properties.message_id == message_id:
                self.outcome.returned[place] = reason
                return


class Publisher:
    """A connection with one channel, on which every message is confirmed."""

    def __init__(self, settings: LinkSettings, *, mandatory: bool, wait_s: float) -> None:
        import pika

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
            raise told(self._reason("no answer"), self._url)

    def publish(self, messages: Sequence[Message]) -> Outcome:
        """Publish in order, and wait until the broker has spoken about all of them.

        If the connection is lost meanwhile, what was confirmed is in the RetriableError's `outcome`.
        """
        with self._changed:
            if self._error is not None:
                raise LostWhilePublishing(told(self._error, self._url), Outcome(set(), {}, set()))
            batch = self._batch = _Batch(messages, self._next_tag)
            self._next_tag += len(messages)
            self._connection.ioloop.add_callback_threadsafe(lambda: self._send(batch))
            settled = self._changed.wait_for(
                lambda: batch.is_settled or self._error is not None, self._wait_s
            )
            if batch.is_settled:
                return batch.outcome
            error = self._reason("the broker does not confirm")
            if not settled:
                self._error = error  # what it confirms later is of no use any more
            raise LostWhilePublishing(told(error, self._url), batch.outcome)

    def close(self) -> None:
        """Close the connection and end its thread."""
        with self._changed:
            if not self._ended:
                self._connection.ioloop.add_callback_threadsafe(self._close)
        self._thread.join(CONNECT_S)

    def _reason(self, silence: str) -> BaseException:
        return self._error or TimeoutError(silence)

    def _run(self) -> None:
        try:
            self._connection.ioloop.start()
        except Exception as error:  # noqa: BLE001 - told to whoever publishes next
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
        except Exception as error:  # noqa: BLE001 - told to whoever publishes
            self._fail(error)

    def _on_return(self, _: Any, returned: Any, properties: Any, __: bytes) -> None:
        with self._changed:
            if self._batch is not None:
                self._batch.give_back(properties.message_id, returned.reply_text)

    def _on_confirm(self, frame: Any) -> None:
        said = frame.method
        with self._changed:
            if self._batch is not None and said.delivery_tag >= self._batch.first_tag:
                taken = type(said).__name__ == "Ack"
                self._batch.settle(said.delivery_tag, multiple=said.multiple, taken=taken)
                if self._batch.is_settled:
                    self._changed.notify_all()


class LostWhilePublishing(Exception):
    """The connection was lost; `outcome` holds what was confirmed before."""

    def __init__(self, cause: ConnectError, outcome: Outcome) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.outcome = outcome

    @property
    def is_worth_a_retry(self) -> bool:
        """Whether the same messages may be published again."""
        return isinstance(self.cause, RetriableError)
