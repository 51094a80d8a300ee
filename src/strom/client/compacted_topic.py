"""A compacted topic as shared state: read to its end, then followed by a background thread.

The members of a cluster of programs keep their state in such a topic: each reads all of it at startup and
then applies every record that any of them writes. State changes only by reading, never by writing.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from strom.client.cluster import topic_config
from strom.client.kafka_errors import NO_LEADER, NO_RESPONSE, NOT_VISIBLE_YET, error_name
from strom.client.offsets import list_offsets
from strom.client.topics import CLUSTER_DEFAULT, create_topic, describe_topic, wait_for_topic
from strom.model.errors import StromError, UserError
from strom.model.retries import RetryPolicy

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

RETRY: Final = RetryPolicy(first_s=0.1, longest_s=5.0)
POLL_S: Final = 0.2
BATCH: Final = 1000
IDENTITY_S: Final = 1.0
_RETRIED = NO_LEADER | NO_RESPONSE | NOT_VISIBLE_YET
_UNDESCRIBED = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"})
_FIXED: Final[Mapping[str, Any]] = {
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
}
log = logging.getLogger(__name__)

MakeConsumer = Callable[[Mapping[str, Any]], "Consumer"]
"""Makes a consumer; these properties take precedence over the user's."""
Apply = Callable[["Message"], None]
"""Applies one record, under the follower's lock. An exception stops the follower for good."""


class FollowerError(StromError):
    """The topic cannot be read at the moment, or the follower has stopped."""


class CatchUpTimeout(FollowerError):
    """The follower did not reach the end of the topic in time."""


def ensure_compacted_topic(
    client: "AdminClient",
    name: str,
    *,
    partitions: int,
    replication_factor: int = CLUSTER_DEFAULT,
    timeout_s: float,
) -> int:
    """Create the topic, or check that the existing one is compacted; its number of partitions.

    UserError if it is not compacted: retention would delete records that are still needed. KafkaException
    if the cluster does not respond or denies it.
    """
    # Describe first: a user who is not authorized to create topics may still use an existing one.
    found = describe_topic(client, name, timeout_s)
    if found is None:
        create_topic(
            client,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            config={"cleanup.policy": "compact"},
            timeout_s=timeout_s,
        )
        found = wait_for_topic(client, name, timeout_s)
        if found is None:
            raise UserError(
                f"Topic {name} was created, but is not visible after {timeout_s:g} s. Try again."
            )
    _check_policy(client, name, timeout_s)
    return len(found.partitions)


def _check_policy(client: "AdminClient", name: str, timeout_s: float) -> None:
    from confluent_kafka import KafkaException

    try:
        policy = topic_config(client, name, timeout_s).get("cleanup.policy", "compact")
    except KafkaException as error:
        if error_name(error) not in _UNDESCRIBED:
            raise
        log.warning("Not authorized to check whether topic %s is compacted.", name)
        return
    if policy != "compact":
        raise UserError(
            f"The topic {name} is not compacted: its cleanup.policy is {policy}, which deletes records "
            f"that are still needed. Change it with: strom topics alter {name} cleanup.policy=compact"
        )


class TopicFollower:
    """Applies every record of a topic, in partition order, and keeps applying new ones.

    `committed`: only records of committed transactions. `on_rewind` is called when a record arrives
    below the position, so the topic was truncated or recreated and the state holds what the topic does
    not. It gets the partition, the position and the offset, and may raise to stop the follower;
    otherwise all records are applied again.
    """

    def __init__(
        self,
        client: "AdminClient",
        make_consumer: MakeConsumer,
        topic: str,
        apply: Apply,
        *,
        committed: bool,
        on_rewind: Callable[[int, int, int], None],
    ) -> None:
        self.topic = topic
        self.lock = threading.RLock()
        """Held while records are applied."""
        self.changed = threading.Condition(self.lock)
        """Notified whenever records were applied."""
        self.failure: BaseException | None = None
        """Why the follower stopped; None while it runs."""
        self._client = client
        self._make_consumer = make_consumer
        self._apply = apply
        self._committed = committed
        self._on_rewind = on_rewind
        self._positions: dict[int, int] = {}
        self._topic_id: str | None = None
        """Of the topic that the positions belong to; None until it is asked for."""
        self._is_replaced = False
        """Whether the consumer still reads a topic that was recreated."""
        self._last_warning = ""
        self._stopping = threading.Event()
        self._consumer: Consumer | None = None
        self._thread = threading.Thread(target=self._run, name=f"follow-{topic}", daemon=True)

    def start(self, partitions: int, timeout_s: float) -> None:
        """Apply everything in the topic at this moment, then follow it in a thread."""
        self._positions = dict.fromkeys(range(partitions), 0)
        self._consumer = self._open()  # here, so that an invalid property raises in the caller
        self._thread.start()
        self.catch_up(timeout_s)

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def catch_up(self, timeout_s: float, *, past_open_transactions: bool = False) -> None:
        """Return when everything that is in the topic at this moment has been applied.

        A follower of committed records reads only up to the last stable offset. With
        `past_open_transactions` this waits until the transactions that are open now have ended.
        """
        deadline = time.monotonic() + timeout_s
        ends = self._ends(timeout_s, committed=self._committed and not past_open_transactions)
        self._check_identity(max(0.1, deadline - time.monotonic()))
        self.wait_for(
            lambda: all(self._positions[number] >= end for number, end in ends.items()),
            max(0.0, deadline - time.monotonic()),
        )

    def wait_for(self, is_reached: Callable[[], bool], timeout_s: float) -> None:
        """Return when a condition on the applied state holds; CatchUpTimeout if it does not in time."""
        with self.changed:
            reached = self.changed.wait_for(
                lambda: self.failure is not None or is_reached(), timeout_s
            )
        self.check()
        if not reached:
            raise CatchUpTimeout(
                f"The topic {self.topic} was not read to its end within {timeout_s:.1f} s."
            )

    def check(self) -> None:
        """Raise FollowerError if the follower has stopped."""
        if self.failure is not None:
            raise FollowerError(f"Topic {self.topic} is no longer followed: {self.failure}")

    def _check_identity(self, timeout_s: float) -> None:
        """Begin again if this is another topic of the same name.

        Offsets alone do not show that, once it has more records than were read of the earlier one.
        """
        from confluent_kafka import KafkaException

        try:
            found = describe_topic(self._client, self.topic, timeout_s)
        except KafkaException:
            return  # the next call asks again; the request for the ends reports what lasts
        if found is None:
            return
        with self.changed:
            known, self._topic_id = self._topic_id, str(found.topic_id)
            if known in {None, self._topic_id} or self.failure is not None:
                return
            try:
                for number, position in self._positions.items():
                    if position:
                        self._on_rewind(number, position, 0)
            except Exception as error:  # noqa: BLE001 - as in the thread, which ends by it
                self._stopping.set()
                self.failure = error
                self.changed.notify_all()
                return
            self._positions = dict.fromkeys(self._positions, 0)
            self._is_replaced = True

    def _ends(self, timeout_s: float, *, committed: bool) -> dict[int, int]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import OffsetSpec

        partitions = [(self.topic, number) for number in self._positions]
        try:
            found = list_offsets(
                self._client,
                partitions,
                OffsetSpec.latest(),
                committed=committed,
                timeout_s=timeout_s,
                retried=_RETRIED,
            )
        except KafkaException as error:
            raise FollowerError(
                f"Cannot read the end offsets of topic {self.topic}: {error.args[0].str()}"
            ) from None
        return {number: offset for (_, number), offset in found.items()}

    # ── the thread ───────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        from confluent_kafka import KafkaException

        attempt = 0
        while not self._stopping.is_set():
            before = dict(self._positions)
            try:
                self._read()
            except KafkaException as error:
                # librdkafka reconnects by itself; an error that it raises needs a new consumer.
                attempt = 0 if self._positions != before else attempt + 1
                self._warn(error.args[0].str())
                self._stopping.wait(RETRY.delay(attempt, random.random()))  # noqa: S311
            except Exception as error:
                log.exception("Topic %s is no longer followed.", self.topic)
                with self.changed:
                    self.failure = error
                    self.changed.notify_all()
                return

    def _read(self) -> None:
        from confluent_kafka import TopicPartition

        consumer, self._consumer = self._consumer, None
        is_first = consumer is not None
        consumer = consumer or self._open()
        try:
            if not is_first:
                # While nothing was read, the topic may have been recreated, and have grown.
                self._check_identity(IDENTITY_S)
            with self.lock:
                self._is_replaced = False
                places = [TopicPartition(self.topic, *place) for place in self._positions.items()]
            consumer.assign(places)
            while not self._stopping.is_set() and not self._is_replaced:
                # consume() alone would wait until the batch is full or the timeout expires.
                first = consumer.poll(POLL_S)
                if first is not None:
                    self._take([first, *consumer.consume(BATCH, 0)])
        finally:
            consumer.close()

    def _open(self) -> "Consumer":
        level = "read_committed" if self._committed else "read_uncommitted"
        return self._make_consumer({**_FIXED, "isolation.level": level})

    def _take(self, messages: "Sequence[Message]") -> None:
        from confluent_kafka import KafkaError

        with self.changed:
            if self._is_replaced:
                return
            for message in messages:
                error, number, offset = message.error(), message.partition(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    self._warn(error.str())
                    continue
                if offset < self._positions[number]:
                    self._on_rewind(number, self._positions[number], offset)
                    self._topic_id = None
                if error is None:
                    self._apply(message)
                    offset += 1
                # At the end of the partition: transaction markers after the last record have offsets too.
                self._positions[number] = offset
            self.changed.notify_all()

    def _warn(self, reason: str) -> None:
        """Log a problem when it changes, not at every retry."""
        if reason != self._last_warning:
            log.warning("Reading the topic %s: %s", self.topic, reason)
            self._last_warning = reason
