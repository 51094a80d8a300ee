"""A worker's membership in its group: joins, sends heartbeats, and assigns units when it leads.

The lease is the time up to which this worker's units cannot be assigned to another. A worker whose
lease has expired stops its tasks by itself, even if it cannot reach the broker.
"""

import json
import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from strom.client.connection_settings import ConnectionSettings
from strom.client.group_member import (
    ClassicGroupMember,
    GroupMemberSettings,
    JoinedGroup,
    MemberEvicted,
    RebalanceInProgress,
)
from strom.client.protocol_client import ProtocolClient
from strom.connect.runtime.assignment import Unit, WorkerAssignment, assign_units
from strom.connect.runtime.herder import Herder
from strom.model.errors import ApiError, ErrorCode, StromError
from strom.model.retries import RetryPolicy

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL_NAME: Final = "strom"
"""Not the one of Kafka's own workers: in one group they and strom's reject each other instead of
misreading each other's assignments."""
_RETRY: Final = RetryPolicy(first_s=0.25, longest_s=1.0)
# When a unit is unassigned, the leader rebalances again after this time.
_REPAIR_S: Final = 2.0


@dataclass(frozen=True)
class WorkerGroup:
    """The group of workers, and its timeouts."""

    name: str
    worker_id: str
    session_ms: int
    heartbeat_ms: int


class Membership:
    """Keeps the membership in its own thread, from `start` to `stop`."""

    def __init__(self, connection: ConnectionSettings, group: WorkerGroup, herder: Herder) -> None:
        self._group = group
        self._herder = herder
        self._client = ProtocolClient(connection, group.worker_id)
        self._member = ClassicGroupMember(
            self._client,
            GroupMemberSettings(group.name, PROTOCOL_TYPE, PROTOCOL_NAME, group.session_ms),
        )
        self._is_leader = False
        self._known_units: frozenset[Unit] = frozenset()
        self._assigned_units: frozenset[Unit] = frozenset()
        self._repair_at = 0.0
        self._stopping = threading.Event()
        self._rejoin = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-group", daemon=True)
        self.leader_id = ""
        """The id of the leading worker; empty before the first rebalance."""

    def start(self) -> None:
        """Join in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the group; all units must have stopped before."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        self._client.close()

    def rejoin(self) -> None:
        """Request a rebalance: a revoked unit has stopped, or there are new units."""
        self._rejoin.set()
        self._wake.set()

    def wake(self) -> None:
        """Have a leader compare the units now, not with its next heartbeat: they may have changed."""
        self._wake.set()

    def holds_lease(self) -> bool:
        """Whether no other worker can have been assigned this one's units yet."""
        return self._member.holds_lease()

    def _run(self) -> None:
        attempt = 0
        while not self._stopping.is_set():
            try:
                self._join()
                attempt = 0
                self._send_heartbeats()
            except RebalanceInProgress:
                continue
            except MemberEvicted as reason:
                log.warning("The group evicted this worker: %s It joins again.", reason)
                self._herder.on_lost()
            # OSError is a shortage, of descriptors for instance; the last three: a member joined with
            # metadata in another format.
            except (StromError, OSError, ValueError, LookupError, TypeError) as error:
                log.warning("This worker is not in its group: %s", self._explained(error))
                if not self.holds_lease():
                    self._member.give_up_lease()
                    self._herder.on_lost()
                self._stopping.wait(_RETRY.delay(attempt, random.random()))  # noqa: S311 - jitter
                attempt += 1
        self._leave()

    def _join(self) -> None:
        self._rejoin.clear()
        claims = sorted(self._herder.claims())
        joined = self._member.join(
            _packed({"worker": self._group.worker_id, "claims": [list(unit) for unit in claims]})
        )
        self._is_leader = joined.is_leader
        assigned = self._member.sync(self._lead(joined) if joined.is_leader else {})
        self._take(assigned, joined.generation)

    def _lead(self, joined: JoinedGroup) -> dict[str, bytes]:
        """Assign all units to the members."""
        members = {member: json.loads(data) for member, data in joined.members.items()}
        claims = {
            member: [Unit(name, task) for name, task in one["claims"]]
            for member, one in members.items()
        }
        units, config_end = self._herder.work()
        self._known_units = frozenset(units)
        assigned = assign_units(self._known_units, claims)
        self._assigned_units = frozenset().union(*assigned.values())
        return {
            member: _packed(
                {
                    "units": [list(unit) for unit in sorted(units_of_member)],
                    "end": config_end,
                    "leader": members[joined.member_id]["worker"],
                }
            )
            for member, units_of_member in assigned.items()
        }

    def _take(self, data: bytes, generation: int) -> None:
        assigned: dict[str, Any] = (
            json.loads(data) if data else {"units": [], "end": 0, "leader": ""}
        )
        units = frozenset(Unit(name, task) for name, task in assigned["units"])
        self.leader_id = assigned["leader"]
        self._repair_at = time.monotonic() + _REPAIR_S
        self._herder.on_assigned(
            WorkerAssignment(units, assigned["end"], generation, assigned["leader"])
        )

    def _send_heartbeats(self) -> None:
        """Send heartbeats until the worker stops or a rebalance is due."""
        while not self._stopping.is_set():
            self._wake.wait(self._group.heartbeat_ms / 1000)
            self._wake.clear()
            if self._stopping.is_set():
                return
            if self._rejoin.is_set() or self._needs_rebalance():
                return
            self._member.heartbeat()

    def _needs_rebalance(self) -> bool:
        """Whether this worker leads, and units changed or could not be assigned last time."""
        if not self._is_leader:
            return False
        if self._herder.wanted() != self._known_units:
            return True
        return self._assigned_units != self._known_units and time.monotonic() >= self._repair_at

    def _explained(self, error: Exception) -> str:
        """The error, with what to do about it where its text does not say."""
        code = error.code if isinstance(error, ApiError) else None
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return (
                f"The group {self._group.name} has members of another protocol, such as Kafka's "
                "workers. Use another group.id, or stop them."
            )
        if code == ErrorCode.INVALID_SESSION_TIMEOUT:
            return (
                f"The broker does not allow session.timeout.ms={self._group.session_ms}; its limits "
                "are group.min.session.timeout.ms and group.max.session.timeout.ms."
            )
        return str(error)

    def _leave(self) -> None:
        try:
            self._member.leave()
        except StromError as error:
            log.debug("The group removes this worker only at its session timeout: %s", error)


def _packed(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
