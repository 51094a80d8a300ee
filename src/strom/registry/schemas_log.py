"""The topic `_schemas`: followed by every instance, written by one at a time (ADR 12)."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from strom.client.compacted_topic import (
    CatchUpTimeout,
    FollowerError,
    TopicFollower,
    ensure_compacted_topic,
)
from strom.client.connection_settings import ConnectionSettings
from strom.client.factories import KafkaClients
from strom.client.fenced_writer import Decision, FencedWriter, RecordTooLarge, WriteTimeout
from strom.client.kafka_errors import NO_RESPONSE, error_name
from strom.model.errors import UserError
from strom.registry.records import StateChange, TopicRecord, encode
from strom.registry.refusals import RestError, store_failed, store_timed_out, too_large

if TYPE_CHECKING:
    from confluent_kafka import Message

TOPIC = "_schemas"
CLIENT_ID = "strom-registry"
RESPONSE_S = 10.0
CHANGE_S = 30.0
START_S = 60.0
# A request waits while the broker is unavailable: librdkafka's default of ten seconds is too long.
_RECONNECT = {"reconnect.backoff.max.ms": "500"}
Result = TypeVar("Result")


class SchemasLog:
    """Passes every record of the topic to `apply`, in order, and appends the entries of changes."""

    def __init__(
        self,
        servers: str,
        apply: Callable[[TopicRecord], None],
        *,
        topic: str = TOPIC,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.servers = servers
        self.topic = topic
        connection = ConnectionSettings(servers, {**_RECONNECT, **(settings or {})})
        self._clients = KafkaClients(connection, CLIENT_ID)
        self._apply = apply
        self._admin = self._clients.admin()
        self._follower = TopicFollower(
            self._admin,
            lambda fixed: self._clients.consumer(fixed=fixed),
            topic,
            self._take,
            committed=True,
            on_rewind=self._refuse_rewind,
        )
        self._writer = FencedWriter(
            self._follower,
            lambda fixed: self._clients.transactional_producer(fixed=fixed),
            f"strom-registry-{topic}",
            RESPONSE_S,
        )

    def start(self) -> None:
        """Create the topic if needed, and read it to its end."""
        partitions = self._ensure_topic()
        with _refusals():
            self._follower.start(partitions, START_S)

    def stop(self) -> None:
        self._follower.stop()
        self._writer.stop()

    def catch_up(self) -> None:
        """Return when every record that is committed by now has been applied."""
        with _refusals():
            self._follower.catch_up(RESPONSE_S)

    @property
    def failure(self) -> BaseException | None:
        """Why the topic is no longer followed; None while it is."""
        return self._follower.failure

    def change(self, decide: Callable[[], StateChange[Result]]) -> Result:
        """Decide on the newest state and append the entries; no other instance writes in between.

        An instance that is fenced meanwhile decides again. Returns when the entries are durable and
        applied here.
        """

        def decision() -> Decision[Result]:
            entries, response = self._decided(decide)
            return Decision([encode(entry) for entry in entries], response)

        with _refusals():
            return self._writer.write(decision, CHANGE_S)

    def _decided(self, decide: Callable[[], StateChange[Result]]) -> StateChange[Result]:
        """Decide, and repeat a refusal on the newest state.

        A change needs no repetition: if a record was written that has not been read here, its writer
        has fenced this instance, and the commit fails.
        """
        try:
            return decide()
        except RestError:
            self.catch_up()
            return decide()

    def _take(self, message: "Message") -> None:
        self._apply(TopicRecord(message.key() or b"", message.value()))
        self._writer.note(message)

    def _refuse_rewind(self, _partition: int, position: int, offset: int) -> None:
        # Ids that clients have are no longer in the topic: a change decided here would contradict the
        # other instances. Look-ups are served from memory until the restart.
        raise UserError(
            f"it was read up to offset {position} and starts again at {offset}, so it was truncated or "
            "recreated. Restart the registry to load its present content."
        )

    def _ensure_topic(self) -> int:
        from confluent_kafka import KafkaException

        try:
            partitions = ensure_compacted_topic(
                self._admin, self.topic, partitions=1, timeout_s=RESPONSE_S
            )
        except KafkaException as error:
            if error_name(error) in NO_RESPONSE:
                raise UserError(f"No Kafka broker responds at {self.servers}.") from None
            raise UserError(
                f"The topic {self.topic} cannot be created or read: {error.args[0].str()}"
            ) from None
        if partitions != 1:
            raise UserError(
                f"The topic {self.topic} has {partitions} partitions; the registry needs exactly one, "
                "which orders all changes. Recreate it with one partition, or use another topic."
            )
        return partitions


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Map errors of the topic to the registry's error codes."""
    try:
        yield
    except (CatchUpTimeout, WriteTimeout) as error:
        store_timed_out(str(error))
    except FollowerError as error:
        store_failed(str(error))
    except RecordTooLarge:
        too_large()
