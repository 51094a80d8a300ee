"""Records that cannot be processed: they fail the task, or are skipped and kept as dead letters."""

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from strom.client.topics import create_topic
from strom.connect.api import ConnectError, TopicPartition
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.settings import CommonSettings, SinkSettings
from strom.metrics.connect import TaskStats

HEADERS = "__connect.errors."
Hide = Callable[[str], str]


class Failures:
    """Handles failed records as `errors.tolerance` and the other errors.* settings demand."""

    def __init__(
        self,
        settings: CommonSettings,
        task: int,
        log: logging.LoggerAdapter[logging.Logger],
        hide: Hide,
        stats: TaskStats | None = None,
    ) -> None:
        self._stats = stats or TaskStats()
        self._settings = settings
        self._task = task
        self._log = log
        self._hide = hide
        self._dead_letters: DeadLetters | None = None
        self._skipped: dict[TopicPartition, set[int]] = {}
        """What was skipped since the last commit: after a rewind it comes again, and counts once."""

    def open(self, clients: Clients) -> None:
        """Create the dead letter topic, if one is configured."""
        settings = self._settings
        if isinstance(settings, SinkSettings) and settings.dead_letter_topic:
            self._dead_letters = DeadLetters(clients, settings, self._task, self._hide)

    def handle(
        self, stage: str, executor: str, error: BaseException, message: Message | None = None
    ) -> None:
        """Skip a record, or raise the ConnectError that fails the task."""
        settings = self._settings
        if settings.tolerance != "all":
            raise ConnectError(
                f"A record cannot be processed ({stage.lower().replace('_', ' ')}{_place(message)}): "
                f"{_sentence(error)} Correct it, or skip such records with errors.tolerance=all."
            ) from error
        if message is not None:
            offsets = self._skipped.setdefault(
                TopicPartition(message.topic(), message.partition()), set()
            )
            if message.offset() in offsets:
                return
            offsets.add(message.offset())
        self._stats.errors += 1
        if settings.log_errors:
            place = _place(message) if settings.log_messages else ""
            self._log.error("Skipped a record, %s%s: %s", stage, place, self._hide(str(error)))
        if self._dead_letters is not None and message is not None:
            self._dead_letters.put(message, stage, executor, error)
            self._stats.dead_letters += 1

    def flush(self) -> None:
        """Return when all dead letters are durable, which must be before a later position is stored."""
        if self._dead_letters is not None:
            self._dead_letters.flush()

    def forget(self, ends: Mapping[TopicPartition, int]) -> None:
        """Forget what was skipped before these offsets: it is never read again."""
        for place, end in ends.items():
            left = {offset for offset in self._skipped.pop(place, ()) if offset >= end}
            if left:
                self._skipped[place] = left

    def forget_all(self) -> None:
        """Forget all that was skipped: the same offsets may be other records next time."""
        self._skipped.clear()

    def close(self) -> None:
        self._dead_letters = None


class DeadLetters:
    """The dead letter topic; the reasons are in headers with Kafka's names."""

    def __init__(self, clients: Clients, settings: SinkSettings, task: int, hide: Hide) -> None:
        self._settings = settings
        self._task = task
        self._hide = hide
        self._topic = settings.dead_letter_topic or ""
        self._failed: list[Any] = []
        self._is_flushed = True
        self._producer: Producer = clients.producer(on_failure=self._note)
        try:
            create_topic(
                clients.admin(),
                self._topic,
                partitions=1,
                replication_factor=settings.dead_letter_replication,
            )
        except KafkaException as error:
            raise ConnectError(
                f"The dead letter topic {self._topic} cannot be created: {error.args[0].str()}"
            ) from None

    def put(self, message: Message, stage: str, executor: str, error: BaseException) -> None:
        headers = list(message.headers() or [])
        if self._settings.dead_letter_headers:
            headers += self._reasons(message, stage, executor, error)
        self._is_flushed = False
        try:
            self._produce(message, headers)
        except KafkaException as refusal:
            raise ConnectError(
                f"The dead letter topic {self._topic} cannot be written{_place(message)}, "
                f"{len(message)} bytes: {refusal.args[0].str()}. If it is too large, raise "
                "producer.override.message.max.bytes and the topic's max.message.bytes."
            ) from None

    def _produce(self, message: Message, headers: list[tuple[str, bytes | None]]) -> None:
        while True:
            try:
                self._producer.produce(self._topic, message.value(), message.key(), headers=headers)
                return
            except BufferError:
                self.flush()

    def flush(self) -> None:
        """Return when all are durable; ConnectError if one cannot be written."""
        if self._is_flushed:
            return
        left = self._producer.flush(30)
        if self._failed or left:
            reason = self._failed[0].str() if self._failed else "the broker does not respond"
            self._failed.clear()
            raise ConnectError(f"The dead letter topic {self._topic} cannot be written: {reason}")
        self._is_flushed = True

    def _reasons(
        self, message: Message, stage: str, executor: str, error: BaseException
    ) -> list[tuple[str, bytes]]:
        trace = "".join(traceback.format_exception(error))
        reasons = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "connector.name": self._settings.name,
            "task.id": self._task,
            "stage": stage,
            "class.name": executor,
            "exception.class.name": type(error).__name__,
            "exception.message": self._hide(str(error)),
            "exception.stacktrace": self._hide(trace),
        }
        return [(f"{HEADERS}{name}", str(value).encode()) for name, value in reasons.items()]

    def _note(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error)


def _sentence(error: BaseException) -> str:
    text = str(error).rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _place(message: Message | None) -> str:
    if message is None:
        return ""
    return f", topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
