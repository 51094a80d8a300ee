"""Transactional producers as raw requests, so that a test can be as late or as wrong as it likes."""

import time
from collections.abc import Iterable
from typing import Any, Self

from kio.schema.errors import ErrorCode

from strom.wire.kafka.codec import decode
from strom.wire.kafka.messages.k65_describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)
from tests.conformance.batches import Record, batch
from tests.conformance.calls import Topic, produce_fields, retry
from tests.conformance.members import commit_fields
from tests.conformance.raw import RawClient

TRANSACTION = 1
READ_COMMITTED = 1
TIMEOUT_MS = 60_000
LAST_PRODUCE_OF_V1 = 11
"""From the next version on, producing adds the partition to the transaction (KIP-890)."""
FIRST_END_OF_V2 = 5
_DEADLINE_S = 20
_FLEXIBLE_RESPONSE_HEADER = 5
_NOT_YET = (ErrorCode.concurrent_transactions, ErrorCode.coordinator_load_in_progress)


def find_coordinator(client: RawClient, transactional_id: str) -> None:
    """Return when the coordinator is there; Kafka first has to create its internal topic."""

    def ask() -> Any:
        keys = [transactional_id]
        return client.call(
            "find_coordinator", 6, key_type=TRANSACTION, coordinator_keys=keys
        ).coordinators[0]

    found = retry(ask, while_code=ErrorCode.coordinator_not_available)
    assert found.error_code == ErrorCode.none
    # Found is not loaded: for a moment the broker may not know yet that it is the one.
    deadline = time.monotonic() + _DEADLINE_S
    while describe_transaction(client, transactional_id).error_code in (
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def describe_transaction(client: RawClient, transactional_id: str) -> TransactionState:
    """What the coordinator responds about a transaction."""
    return describe_transactions(client, [transactional_id])[0]


def describe_transactions(
    client: RawClient, transactional_ids: list[str]
) -> list[TransactionState]:
    """The same for several; kio cannot read the start of a transaction, which may be -1."""
    client.send("describe_transactions", 0, transactional_ids=transactional_ids)
    frame = memoryview(client.receive_frame())
    answer = decode(DescribeTransactionsResponse, 0, frame, _FLEXIBLE_RESPONSE_HEADER)
    return answer.transaction_states


def wait_for_state(client: RawClient, transactional_id: str, *states: str) -> Any:
    """The description, once the transaction is in one of these states."""
    deadline = time.monotonic() + _DEADLINE_S
    while (found := describe_transaction(client, transactional_id)).transaction_state not in states:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


class Producer:
    """One transactional producer: its id and epoch, and the next sequence for each partition."""

    def __init__(self, client: RawClient, transactional_id: str, *, version: int = 2) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.version = version
        """Of transactions: 1 as before KIP-890, or 2."""
        self.id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def zombie(self) -> Self:
        """Another with the same id and epoch, that will not notice what becomes of this one."""
        other = type(self)(self.client, self.transactional_id, version=self.version)
        other.id, other.epoch, other.sequences = self.id, self.epoch, dict(self.sequences)
        return other

    def ask_for_id(self, *, version: int = 5, **changes: Any) -> Any:
        """One InitProducerId and its answer."""
        fields = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": TIMEOUT_MS,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        return self.client.call("init_producer_id", version, **(fields | changes))

    def begin(self, **changes: Any) -> None:
        """Get an id and an epoch, as a producer does when it starts."""
        find_coordinator(self.client, self.transactional_id)
        deadline = time.monotonic() + _DEADLINE_S
        while (answer := self.ask_for_id(**changes)).error_code in _NOT_YET:
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)
        assert answer.error_code == ErrorCode.none, answer
        self.id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}

    def add(self, topic: Topic, *partitions: int, version: int = 3, **changes: Any) -> Any:
        """AddPartitionsToTxn as clients send it; the codes by partition."""
        fields = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self.id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": [{"name": topic.name, "partitions": partitions or (0,)}],
        }
        answer = self.client.call("add_partitions_to_txn", version, **(fields | changes))
        return {
            result.partition_index: result.partition_error_code
            for one in answer.results_by_topic_v3_and_below
            for result in one.results_by_partition
        }

    def send(
        self,
        topic: Topic,
        *values: bytes,
        partition: int = 0,
        version: int | None = None,
        sequence: int | None = None,
        **changes: Any,
    ) -> Any:
        """Produce one transactional batch; the answer for its partition."""
        if version is None:
            version = LAST_PRODUCE_OF_V1 if self.version == 1 else LAST_PRODUCE_OF_V1 + 1
        where = (topic.name, partition)
        first = self.sequences.get(where, 0) if sequence is None else sequence
        # Of today, as markers are: records from long ago would be in a segment of their own.
        now_ms = int(time.time() * 1000)
        records = batch(
            *(Record(value, timestamp_ms=now_ms) for value in values),
            producer_id=self.id,
            epoch=self.epoch,
            sequence=first,
            transactional=True,
        )
        fields = produce_fields(topic, records, partition)
        fields["transactional_id"] = self.transactional_id
        answer = self.client.call("produce", version, **(fields | changes))
        result = answer.responses[0].partition_responses[0]
        if result.error_code == ErrorCode.none:
            self.sequences[where] = first + len(values)
        return result

    def add_offsets(self, group: str, *, version: int = 4, **changes: Any) -> ErrorCode:
        """AddOffsetsToTxn."""
        fields = self._named() | {"group_id": group}
        code: ErrorCode = self.client.call(
            "add_offsets_to_txn", version, **(fields | changes)
        ).error_code
        return code

    def commit_offsets(
        self,
        group: str,
        topic: Topic,
        offsets: dict[int, int],
        *,
        version: int | None = None,
        **changes: Any,
    ) -> dict[int, ErrorCode]:
        """TxnOffsetCommit; the codes by partition."""
        if version is None:
            version = 4 if self.version == 1 else 5
        fields = self._named() | {
            "group_id": group,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {"name": topic.name, "partitions": commit_fields(topic, offsets)["partitions"]}
            ],
        }
        answer = self.client.call("txn_offset_commit", version, **(fields | changes))
        return {
            one.partition_index: one.error_code for each in answer.topics for one in each.partitions
        }

    def ask_to_end(self, *, commit: bool, version: int | None = None, **changes: Any) -> Any:
        """One EndTxn and its answer."""
        if version is None:
            version = FIRST_END_OF_V2 - 1 if self.version == 1 else FIRST_END_OF_V2
        fields = self._named() | {"committed": commit}
        return self.client.call("end_txn", version, **(fields | changes))

    def end(self, *, commit: bool) -> None:
        """Commit or abort, and go on with the epoch that is given for it."""
        answer = self.ask_to_end(commit=commit)
        assert answer.error_code == ErrorCode.none, answer
        if self.version > 1:
            self.id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        done = "CompleteCommit" if commit else "CompleteAbort"
        wait_for_state(self.client, self.transactional_id, done)

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }


def add_many(client: RawClient, version: int, transactions: Iterable[dict[str, Any]]) -> Any:
    """AddPartitionsToTxn in the form for several transactions, as brokers send it."""
    return client.call("add_partitions_to_txn", version, transactions=tuple(transactions))
