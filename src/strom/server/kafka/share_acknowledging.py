"""What ShareFetch and ShareAcknowledge share: sessions, and acknowledging records of many partitions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from strom.broker.share_sessions import SessionKey, ShareSession, TopicIdPartition
from strom.coordination.groups.share.partitions.share_partition import (
    Acknowledgement,
    AcknowledgeType,
)
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import Context
from strom.wire.kafka.messages.k78_share_fetch import AcknowledgementBatch
from strom.wire.kafka.schema import Uuid

FIRST_VERSION_WITH_RENEW = 2
MOST_MEMBER_ID_LENGTH = 36
MAX_AT_ONCE = 20
"""Partitions that are acknowledged or read in one turn of the event loop: a few milliseconds."""
MAX_BATCHES_AT_ONCE = 500
"""Batches of a request that are validated in one turn of the event loop: less than a millisecond."""


class AcknowledgedPartition(Protocol):
    """A partition in either request."""

    partition_index: int
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgedTopic(Protocol):
    """A topic in either request."""

    topic_id: Uuid

    @property
    def partitions(self) -> Sequence[AcknowledgedPartition]:
        """The partitions with acknowledgements."""


class SharingRequest(Protocol):
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool

    @property
    def topics(self) -> Sequence[AcknowledgedTopic]:
        """The topics with acknowledgements."""


class AcknowledgeResult(NamedTuple):
    """The result for one partition."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def session_key(request: SharingRequest) -> SessionKey:
    """The group and member of a request; INVALID_REQUEST if they are malformed."""
    if request.group_id is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    if not request.member_id or len(request.member_id) > MOST_MEMBER_ID_LENGTH:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return SessionKey(request.group_id, request.member_id)


def has_acknowledgements(request: SharingRequest) -> bool:
    return any(
        partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    )


def needs_slices(request: SharingRequest) -> bool:
    """Whether it has many partitions, or many batches of acknowledgements."""
    if sum(len(topic.partitions) or 1 for topic in request.topics) > MAX_AT_ONCE:
        return True
    batches = 0
    for topic in request.topics:
        for partition in topic.partitions:
            batches += len(partition.acknowledgement_batches)
    return batches > MAX_BATCHES_AT_ONCE


def end_session(session: ShareSession, context: Context) -> None:
    """Close a session; records that are not acknowledged become available to other members."""
    context.on_close.remove(session.key)
    context.shares.session_ended(session)


class Acknowledgements:
    """The acknowledgements of one request: do its steps, then wait until `on_done` calls back."""

    def __init__(self, request: SharingRequest, key: SessionKey, context: Context) -> None:
        self.results: dict[TopicIdPartition, AcknowledgeResult] = {}
        self._key = key
        self._context = context
        self._may_renew = request.is_renew_ack and context.version >= FIRST_VERSION_WITH_RENEW
        self._pending = 1
        self._when_done: Callable[[], None] | None = None
        self._topics = request.topics

    def steps(self) -> Steps[None]:
        """Acknowledge partition by partition: in one all at once, or none."""
        for topic in self._topics:
            for partition in topic.partitions:
                if partition.acknowledgement_batches:
                    place = (topic.topic_id, partition.partition_index)
                    yield from self._acknowledge(place, partition.acknowledgement_batches)
                yield None
        self._pending -= 1

    @property
    def is_done(self) -> bool:
        """Whether all acknowledgements are durable, or refused."""
        return not self._pending

    async def wait(self) -> None:
        """After the steps, return when all acknowledgements are durable, or refused."""
        done: asyncio.Future[None] = self._context.services.loop.create_future()
        self.on_done(lambda: None if done.done() else done.set_result(None))
        await done

    def on_done(self, callback: Callable[[], None]) -> None:
        """After the steps, call back once all acknowledgements are durable, or refused."""
        if self._pending:
            self._when_done = callback
        else:
            callback()

    def _acknowledge(
        self, place: TopicIdPartition, batches: list[AcknowledgementBatch]
    ) -> Steps[None]:
        self._pending += 1
        try:
            said = []
            for batch in batches:
                said.append(self._checked(batch))
                yield None
            shared = self._context.shares.partition(self._key.group, *place)
            shared.acknowledge(self._key.member, said, lambda code: self._is_written(place, code))
        except ApiError as error:
            self.results[place] = AcknowledgeResult(error.code, error.message)
            self._pending -= 1
        except DirectoryOffline:
            self.results[place] = AcknowledgeResult(ErrorCode.KAFKA_STORAGE_ERROR)
            self._pending -= 1

    def _is_written(self, place: TopicIdPartition, code: ErrorCode) -> None:
        self.results[place] = AcknowledgeResult(code)
        self._pending -= 1
        if not self._pending and self._when_done is not None:
            self._when_done()

    def _checked(self, batch: AcknowledgementBatch) -> Acknowledgement:
        verdicts = batch.acknowledge_types
        count = batch.last_offset - batch.first_offset + 1
        last_kind = AcknowledgeType.RENEW if self._may_renew else AcknowledgeType.REJECT
        if (
            count < 1
            or len(verdicts) not in (1, count)
            or min(verdicts) < AcknowledgeType.GAP
            or max(verdicts) > last_kind
        ):
            raise ApiError(ErrorCode.INVALID_REQUEST, "The acknowledgement batch is invalid.")
        return Acknowledgement(batch.first_offset, batch.last_offset, verdicts)
