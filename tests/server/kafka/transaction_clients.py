"""Transactional clients for schedules: they follow the protocol, over a network that does not.

A request may be lost, come late, or come twice; an answer may get lost. A client tries again, gives up
and aborts, or is replaced by a new one with the same transactional id, and does not notice.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from strom.model.errors import ErrorCode
from strom.wire.kafka.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from strom.wire.kafka.messages.k22_init_producer_id import InitProducerIdRequest
from strom.wire.kafka.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from strom.wire.kafka.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from strom.wire.kafka.messages.k26_end_txn import EndTxnRequest
from strom.wire.kafka.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from strom.wire.kafka.records import Record, build_batch
from strom.wire.kafka.schema import Request
from tests.server.kafka.transaction_world import (
    INPUT,
    OUTPUT,
    OUTPUT_PARTITIONS,
    TIMEOUT_MS,
    World,
)

CODES = {code.value: code for code in ErrorCode}

TRIES = 3
AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}


@dataclass
class Txn:
    """What a client knows of one of its transactions."""

    number: int
    sent: list[str] = field(default_factory=list)
    acked: list[str] = field(default_factory=list)
    offset_acked: bool = False
    commit_asked: bool = False
    is_committed: bool = False

    @property
    def group(self) -> str:
        """A group of its own, so that its offset tells of no other transaction."""
        return f"group-{self.number}"


@dataclass
class Call:
    """A request that is made anew for every delivery, for the broker writes into its buffers."""

    make: Callable[[], Request]
    version: int
    answered: Callable[[Any], None]
    given_up: Callable[[], None]
    may_be_late: bool = True


class Network:
    """Delivers, delays, repeats and loses."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.late: list[Call] = []

    def send(self, call: Call) -> "asyncio.Future[Any]":
        """Deliver now, or later, or both."""
        luck = self.chance.random() if call.may_be_late else 1.0
        if luck < 0.08:
            self.late.append(call)
            return asyncio.get_running_loop().create_future()  # no answer will come
        if luck < 0.16:
            self.late.append(call)
        return self.world.deliver(call.make(), call.version)

    def deliver_late(self) -> None:
        """Something old arrives; nobody waits for its answer."""
        if self.late:
            call = self.late.pop(self.chance.randrange(len(self.late)))
            self.world.deliver(call.make(), call.version)


class Client:
    """One instance of a transactional producer."""

    def __init__(self, network: Network, name: str, version: int, new_txn: Callable[[], Txn]):
        self.network, self.name, self.version = network, name, version
        self.chance = network.chance
        self.new_txn = new_txn
        self.id = self.epoch = -1
        self.sequences: dict[int, int] = {}
        self.added: set[object] = set()
        self.txn: Txn | None = None
        self.is_dead = False
        self._needs_id = True
        self._plan: list[Callable[[], Call]] = []
        self._call: Call | None = None
        self._waits: asyncio.Future[Any] | None = None
        self._tries = 0

    # --- one step ------------------------------------------------------------------------------

    def act(self) -> None:
        """Look whether the answer is there; send the next request; or lose patience."""
        if self.is_dead:
            return
        if self._waits is None:
            self._send(self._call or self._next())
        elif self._waits.done() and not self._waits.cancelled():
            call, answer = self._call, self._waits.result()
            assert call is not None
            self._call = self._waits = None
            self._tries = 0
            call.answered(answer)
        elif self._waits.cancelled() or self.chance.random() < 0.3:
            self._lose_patience()

    def _lose_patience(self) -> None:
        self._waits = None
        self._tries += 1
        if self._tries >= TRIES and self._call is not None:
            call, self._call, self._tries = self._call, None, 0
            call.given_up()

    def _send(self, call: Call) -> None:
        self._call = call
        self._waits = self.network.send(call)

    def _again(self, call: Call) -> Callable[[], None]:
        def retry() -> None:
            self._call = call

        return retry

    def _next(self) -> Call:
        if self._needs_id:
            return self._init()
        if self.txn is None:
            self._begin()
        return self._plan.pop(0)()

    def _begin(self) -> None:
        self.txn = self.new_txn()
        self.added.clear()
        steps: list[Callable[[], Call]] = []
        for _ in range(self.chance.randint(1, 4)):
            steps += self._producing(self.chance.randrange(OUTPUT_PARTITIONS))
        if self.chance.random() < 0.6:
            if self.version == 1:
                steps.append(self._add_offsets)
            steps.append(self._commit_offsets)
        commit = self.chance.random() < 0.7
        self._plan = [*steps, lambda: self._end(commit=commit)]

    def _producing(self, partition: int) -> list[Callable[[], Call]]:
        produce = lambda: self._produce(partition)  # noqa: E731
        if self.version == 1 and partition not in self.added:
            self.added.add(partition)
            return [lambda: self._add(partition), produce]
        return [produce]

    # --- requests ------------------------------------------------------------------------------

    def _init(self) -> Call:
        producer_id, epoch = self.id, self.epoch

        def answered(answer: Any) -> None:
            code = CODES[answer.error_code]
            if code is ErrorCode.NONE:
                self._is_now(answer.producer_id, answer.producer_epoch)
                self._needs_id = False
            elif code not in AGAIN:
                self.is_dead = True

        return Call(
            lambda: InitProducerIdRequest(
                transactional_id=self.name,
                transaction_timeout_ms=TIMEOUT_MS,
                producer_id=producer_id,
                producer_epoch=epoch,
            ),
            5,
            answered,
            lambda: None,
        )

    def _is_now(self, producer_id: int, epoch: int) -> None:
        self.id, self.epoch, self.sequences = producer_id, epoch, {}

    def _add(self, partition: int) -> Call:
        producer_id, epoch = self.id, self.epoch
        call = Call(
            lambda: AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=OUTPUT, partitions=[partition])],
            ),
            3,
            lambda answer: self._went(
                call,
                answer.results_by_topic_v3_and_below[0]
                .results_by_partition[0]
                .partition_error_code,
            ),
            self._abort,
        )
        return call

    def _produce(self, partition: int) -> Call:
        assert self.txn is not None
        txn, producer_id, epoch = self.txn, self.id, self.epoch
        values = [f"{txn.number}:{len(txn.sent) + index}" for index in range(2)]
        txn.sent += values
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(values)

        def make() -> Request:
            now_ms = self.network.world.clock.now_ms()
            data = build_batch(
                [Record(index, now_ms, None, value.encode()) for index, value in enumerate(values)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
            part = PartitionProduceData(index=partition, records=memoryview(data))
            topic = TopicProduceData(name=OUTPUT, partition_data=[part])
            return ProduceRequest(
                transactional_id=self.name, acks=-1, timeout_ms=1, topic_data=[topic]
            )

        def answered(answer: Any) -> None:
            code = answer.responses[0].partition_responses[0].error_code
            if code == ErrorCode.NONE:
                txn.acked += values
            self._went(call, code)

        call = Call(make, 11 if self.version == 1 else 12, answered, self._abort)
        return call

    def _add_offsets(self) -> Call:
        assert self.txn is not None
        group, producer_id, epoch = self.txn.group, self.id, self.epoch
        call = Call(
            lambda: AddOffsetsToTxnRequest(
                transactional_id=self.name,
                producer_id=producer_id,
                producer_epoch=epoch,
                group_id=group,
            ),
            4,
            lambda answer: self._went(call, answer.error_code),
            self._abort,
        )
        return call

    def _commit_offsets(self) -> Call:
        assert self.txn is not None
        txn, producer_id, epoch = self.txn, self.id, self.epoch

        def make() -> Request:
            part = TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=txn.number, committed_metadata=""
            )
            topic = TxnOffsetCommitRequestTopic(name=INPUT, partitions=[part])
            return TxnOffsetCommitRequest(
                transactional_id=self.name,
                group_id=txn.group,
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=[topic],
            )

        def answered(answer: Any) -> None:
            code = answer.topics[0].partitions[0].error_code
            txn.offset_acked = txn.offset_acked or code == ErrorCode.NONE
            self._went(call, code)

        # Before KIP-890 a repeated one may get into the next transaction: Kafka has no remedy either.
        late = self.version > 1
        call = Call(make, 4 if self.version == 1 else 5, answered, self._abort, late)
        return call

    def _end(self, *, commit: bool) -> Call:
        assert self.txn is not None
        txn, producer_id, epoch = self.txn, self.id, self.epoch
        txn.commit_asked = txn.commit_asked or commit

        def answered(answer: Any) -> None:
            code = CODES[answer.error_code]
            if code in AGAIN:
                self._call = call
                return
            self.txn = None
            if code is ErrorCode.NONE:
                txn.is_committed = commit
                if self.version > 1:
                    self._is_now(answer.producer_id, answer.producer_epoch)
            elif code in FENCED:
                self.is_dead = True
            else:
                self._needs_id = True

        late = self.version > 1  # as above
        version = 4 if self.version == 1 else 5
        call = Call(
            lambda: EndTxnRequest(
                transactional_id=self.name,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=commit,
            ),
            version,
            answered,
            lambda: self._again(call)(),  # until it is known how it ended
            late,
        )
        return call

    # --- what becomes of a request within a transaction ----------------------------------------

    def _went(self, call: Call, code: int) -> None:
        if code == ErrorCode.NONE:
            return
        if code in AGAIN:
            self._call = call
        elif code in FENCED:
            self.is_dead = True
        else:
            self._abort()

    def _abort(self) -> None:
        """Something is missing and may come late: abort, and (before KIP-890) ask for another epoch."""
        self._plan = [lambda: self._end(commit=False)]
        if self.version == 1:
            self._needs_id_after_end()

    def _needs_id_after_end(self) -> None:
        end = self._plan[0]

        def end_and_bump() -> Call:
            call = end()
            answered = call.answered

            def then_bump(answer: Any) -> None:
                answered(answer)
                if self.txn is None:
                    self._needs_id = True

            call.answered = then_bump
            return call

        self._plan = [end_and_bump]
