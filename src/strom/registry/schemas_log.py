"""The topic `_schemas`: read to its end and followed; written by one instance at a time.

Several registries may run on one topic. Who writes first takes the topic's transactional id, which fences
off whoever had it before: a write of theirs that was decided on an older state cannot be committed any
more, and they decide again. So the order of the log is the order of decisions, on any Kafka, without a
leader and without a lease. ADR 12 tells why.
"""

import logging
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from strom.model.errors import UserError
from strom.registry.records import Entry, StateChange, TopicRecord, encode
from strom.registry.refusals import RestError, store_failed, store_timed_out, too_large

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

TOPIC = "_schemas"
ANSWER_S = 10.0
CHANGE_S = 30.0
START_S = 60.0
BATCH = 500
POLL_S = 0.2
FIRST_PAUSE_S = 0.01
LEADER_PAUSE_S = 0.05
_PASSES_SOON = {
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_PARTITION",
    "_UNKNOWN_TOPIC",
}
WRITE_HEADER = "strom-write"
"""Tells one's own records from others', when the answer to a commit was lost."""
log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
_silent = logging.Logger("librdkafka")
_silent.addHandler(logging.NullHandler())


class SchemasLog:
    """Feeds every record of the topic to `apply`, in order, and appends what is decided."""

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
        self._apply = apply
        self._settings: dict[str, Any] = {
            "client.id": "strom-registry",
            "log_level": 0,
            # A request waits while the broker is away: ten seconds after it is back are too long.
            "reconnect.backoff.max.ms": 500,
            **(settings or {}),
            "bootstrap.servers": servers,
        }
        self._news = threading.Condition()
        self._position = 0
        self._token: bytes | None = None
        self._seen: bytes | None = None
        self._failed: BaseException | None = None
        self._stopping = threading.Event()
        self._reader = threading.Thread(target=self._read, name="schemas-reader", daemon=True)
        self._writing = threading.Lock()
        self._producer: Producer | None = None

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Make sure of the topic, and read all that is in it."""
        from confluent_kafka.admin import AdminClient

        self._admin = AdminClient(self._settings)
        self._make_topic()
        self._reader.start()
        self.catch_up(START_S)

    def stop(self) -> None:
        """Leave."""
        self._stopping.set()
        if self._reader.is_alive():
            self._reader.join()
        self._producer = None

    def catch_up(self, timeout_s: float = ANSWER_S) -> None:
        """Return when everything that is committed by now has been applied."""
        end = self._end()
        self._wait(lambda: self._position >= end, timeout_s)

    @property
    def failure(self) -> BaseException | None:
        """Why the topic cannot be followed any more; None while it is."""
        return self._failed

    def _end(self) -> int:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        asked = TopicPartition(self.topic, 0)
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                found = self._admin.list_offsets(
                    {asked: OffsetSpec.latest()},
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=ANSWER_S,
                )
                return int(found[asked].result().offset)
            except KafkaException as error:
                # A topic that has just been created has no leader for a moment.
                if error.args[0].name() not in _PASSES_SOON or time.monotonic() > deadline:
                    store_failed(error.args[0].str())
            time.sleep(LEADER_PAUSE_S)

    def _wait(self, arrived: Callable[[], bool], timeout_s: float) -> None:
        with self._news:
            done = self._news.wait_for(lambda: arrived() or self._failed is not None, timeout_s)
        if self._failed is not None:
            store_failed(str(self._failed))
        if not done:
            store_timed_out(f"what was written could not be read within {timeout_s:.0f} s")

    def _read(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            {
                **self._settings,
                "group.id": "strom-registry",  # demanded even of those who never join a group
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
            }
        )
        try:
            consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
            while not self._stopping.is_set():
                # consume() alone would wait until there are as many, or the time is over.
                first = consumer.poll(POLL_S)
                if first is not None:
                    self._take([first, *consumer.consume(BATCH, 0)])
        except Exception as error:
            log.exception("the topic %s cannot be followed any more", self.topic)
            with self._news:
                self._failed = error
                self._news.notify_all()
        finally:
            consumer.close()

    def _take(self, messages: "Sequence[Message]") -> None:
        from confluent_kafka import KafkaError

        with self._news:
            for message in messages:
                error = message.error()
                if error is None:
                    self._apply(TopicRecord(message.key() or b"", message.value()))
                    if (WRITE_HEADER, self._token) in (message.headers() or ()):
                        self._seen = self._token
                    self._position = message.offset() + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    # Beyond the last record: markers of transactions have offsets too.
                    self._position = max(self._position, message.offset())
                else:
                    log.warning("reading %s: %s", self.topic, error.str())
            self._news.notify_all()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def change(self, decide: Callable[[], StateChange[Answer]]) -> Answer:
        """Decide on the newest state and append the entries; nobody else can have written between.

        Whoever took over in the meantime makes this decide again. The answer comes when the entries
        are safe and applied here.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + CHANGE_S
        pause = FIRST_PAUSE_S
        sent: StateChange[Answer] | None = None
        with self._writing:
            while True:
                try:
                    producer = self._writer()
                    if sent is not None and self._seen == self._token:
                        return sent.response  # it was committed: only the answer got lost
                    sent = None
                    change = self._decided(decide)
                    if change.entries:
                        sent = change
                        self._append(producer, change.entries)
                        self._wait(lambda: self._seen == self._token, ANSWER_S)
                    return change.response
                except KafkaException as error:
                    self._producer = None
                    if time.monotonic() > deadline:
                        store_timed_out(str(error))
                # Two who fence each other off again and again get apart by chance.
                time.sleep(random.uniform(0, pause))  # noqa: S311
                pause = min(1.0, pause * 2)

    def _decided(self, decide: Callable[[], StateChange[Answer]]) -> StateChange[Answer]:
        """What is decided; a refusal only on the newest state.

        A change needs no such care: if anything was written that has not been read here, whoever
        wrote it has fenced this instance off, and the commit fails.
        """
        try:
            return decide()
        except RestError:
            self.catch_up()
            return decide()

    def _writer(self) -> "Producer":
        """The one producer that may write. A new one ends what earlier ones had in the air, and all of
        that has been read when it is returned.
        """
        from strom.client.transactional_producer import TransactionalProducer

        if self._producer is None:
            producer = TransactionalProducer(
                {
                    **self._settings,
                    "transactional.id": f"strom-registry-{self.topic}",
                    "transaction.timeout.ms": 10_000,
                    "linger.ms": 0,
                    # Being fenced off is told by every call, and is no news to anyone else.
                    "error_cb": lambda error: None,
                    "logger": _silent,
                }
            )
            producer.init_transactions(ANSWER_S)
            self.catch_up()
            self._producer = producer
        return self._producer

    def _append(self, producer: "Producer", entries: Sequence[Entry]) -> None:
        from confluent_kafka import KafkaError, KafkaException

        self._token = secrets.token_bytes(16)
        producer.begin_transaction()
        try:
            for key, value in map(encode, entries):
                headers = [(WRITE_HEADER, self._token)]
                producer.produce(self.topic, value, key, partition=0, headers=headers)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                producer.abort_transaction(ANSWER_S)
                too_large()
            raise
        producer.commit_transaction(ANSWER_S)

    # ── the topic ────────────────────────────────────────────────────────────────────────────────

    def _make_topic(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        try:
            topics = self._admin.list_topics(timeout=ANSWER_S).topics
        except KafkaException:
            raise UserError(f"No Kafka broker answers at {self.servers}.") from None
        if self.topic in topics:
            self._check_topic(len(topics[self.topic].partitions))
            return
        new = NewTopic(
            self.topic,
            num_partitions=1,
            replication_factor=-1,
            config={"cleanup.policy": "compact"},
        )
        try:
            self._admin.create_topics([new])[self.topic].result(ANSWER_S)
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise UserError(
                    f"The topic {self.topic} cannot be created: {error.args[0].str()}"
                ) from None

    def _check_topic(self, partitions: int) -> None:
        from confluent_kafka.admin import ConfigResource

        if partitions != 1:
            raise UserError(
                f"The topic {self.topic} has {partitions} partitions; the registry needs one, for "
                "the order of all schemas is its order."
            )
        asked = ConfigResource(ConfigResource.Type.TOPIC, self.topic)
        found = self._admin.describe_configs([asked])[asked].result(ANSWER_S)
        if found["cleanup.policy"].value != "compact":
            raise UserError(
                f"The topic {self.topic} is not compacted, so schemas would be lost in time. Change it "
                f"with: strom topics alter {self.topic} cleanup.policy=compact"
            )
