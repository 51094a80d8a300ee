"""A member of a classic group, for programs that coordinate through Kafka's group protocol.

The protocol can assign any work, not only partitions: each member joins with its own metadata, the
coordinator elects a leader, and the leader assigns. A program calls `join`, `sync` and then `heartbeat`
from one thread, and starts over with `join` on RebalanceInProgress and MemberEvicted.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from strom.client.broker_connection import check
from strom.client.protocol_client import BrokerNode, ProtocolClient
from strom.model.errors import ErrorCode, StromError
from strom.wire.kafka.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from strom.wire.kafka.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from strom.wire.kafka.messages.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from strom.wire.kafka.messages.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from strom.wire.kafka.schema import Request, Response, Versions

_LEAVE_TIMEOUT_S: Final = 2.0
_MARGIN_S: Final = 5.0
_JOIN: Final = Versions(4, 9)
"""From version 4 on, a new member gets its id before it joins (KIP-394)."""
_LEAVE: Final = Versions(0, 2)
"""The versions without batching (KIP-345): one member for each request."""

R = TypeVar("R", bound=Response)


class RebalanceInProgress(StromError):
    """The group rebalances: join again, and keep the assignment until then."""


class MemberEvicted(StromError):
    """The coordinator has removed this member: its work may be assigned to others."""


@dataclass(frozen=True)
class GroupMemberSettings:
    """What all members of a group must agree on."""

    group_id: str
    protocol_type: str
    protocol_name: str
    session_timeout_ms: int


@dataclass(frozen=True)
class JoinedGroup:
    """One generation of the group."""

    generation: int
    member_id: str
    leader_id: str
    members: Mapping[str, bytes]
    """The metadata of every member, for the leader alone."""

    @property
    def is_leader(self) -> bool:
        """Whether this member computes the assignments."""
        return self.leader_id == self.member_id


class ClassicGroupMember:
    """Joins, syncs, sends heartbeats and leaves; knows how long its assignment is exclusive: the lease.

    The coordinator evicts a member that was silent for the session timeout. The lease counts the same
    time from when the last successful request was *sent*, so it ends before the coordinator can assign
    the member's work to another, whether the broker can be reached or not.
    """

    def __init__(self, client: ProtocolClient, settings: GroupMemberSettings) -> None:
        self._client = client
        self._settings = settings
        self._coordinator: BrokerNode | None = None
        self._member_id = ""
        self._generation = -1
        self._lease_until = 0.0

    def holds_lease(self) -> bool:
        """Whether this member's work cannot have been assigned to another yet."""
        return time.monotonic() < self._lease_until

    def give_up_lease(self) -> None:
        """Renounce the assignment; a later `join` starts over."""
        self._lease_until = 0.0
        self._generation = -1

    def join(self, metadata: bytes) -> JoinedGroup:
        """Become a member, or take part in a rebalance; returns when all members have joined."""
        response, sent = self._join(metadata)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            response, sent = self._join(metadata)
        self._accept(response.error_code, sent)
        self._member_id, self._generation = response.member_id, response.generation_id
        return JoinedGroup(
            response.generation_id,
            response.member_id,
            response.leader,
            {member.member_id: member.metadata for member in response.members},
        )

    def sync(self, assignments: Mapping[str, bytes]) -> bytes:
        """This member's assignment; the leader passes those of all members, the others none."""
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=self._settings.protocol_type,
            protocol_name=self._settings.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in assignments.items()
            ],
        )
        response, sent = self._send(request, SyncGroupResponse, self._session_s)
        self._accept(response.error_code, sent)
        return response.assignment

    def heartbeat(self) -> None:
        """Stay a member, and renew the lease."""
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
        )
        response, sent = self._send(request, HeartbeatResponse, self._session_s)
        self._accept(response.error_code, sent)

    def leave(self) -> None:
        """Leave the group at once; a coordinator that is unknown evicts this member later."""
        if self._coordinator is None:
            return
        request = LeaveGroupRequest(group_id=self._settings.group_id, member_id=self._member_id)
        self._send(request, LeaveGroupResponse, _LEAVE_TIMEOUT_S, _LEAVE)

    @property
    def _session_s(self) -> float:
        return self._settings.session_timeout_ms / 1000

    def _join(self, metadata: bytes) -> tuple[JoinGroupResponse, float]:
        settings = self._settings
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.session_timeout_ms,
            member_id=self._member_id,
            protocol_type=settings.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=settings.protocol_name, metadata=metadata)],
        )
        # The coordinator responds when all members have joined or the rebalance timeout has passed.
        return self._send(request, JoinGroupResponse, self._session_s + _MARGIN_S, _JOIN)

    def _send(
        self,
        request: Request,
        response: type[R],
        timeout_s: float,
        versions: Versions | None = None,
    ) -> tuple[R, float]:
        """The coordinator's response, and when the request was sent."""
        if self._coordinator is None:
            self._coordinator = self._client.coordinator(self._settings.group_id)
        sent = time.monotonic()
        try:
            received = self._client.call(
                request, response, self._coordinator, versions=versions, timeout_s=timeout_s
            )
        except StromError:
            self._coordinator = None  # it may have moved to another broker
            raise
        return received, sent

    def _accept(self, error: int, sent: float) -> None:
        """Raise the error of a response, or renew the lease."""
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            raise RebalanceInProgress
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            if error == code:
                self.give_up_lease()
                raise MemberEvicted(code.text)
        if error in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}:
            self._coordinator = None
        check(error)
        self._lease_until = sent + self._session_s
