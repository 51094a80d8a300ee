"""A worker's place in the group of workers: joins, sends heartbeats, and assigns when it leads.

The group member's lease is the time up to which no other worker can have been assigned this one's
work. A worker whose lease has run out stops its tasks by itself, whether the broker can be reached or
not.
"""

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from strom.client.connection_settings import ConnectionSettings
from strom.client.group_member import (
    ClassicGroupMember,
    GroupMemberSettings,
    JoinedGroup,
    MemberEvicted,
    RebalanceInProgress,
)
from strom.client.protocol_client import ProtocolClient
from strom.connect.runtime.assignment import Unit, share_out
from strom.model.errors import ApiError, ErrorCode, StromError
from strom.model.retries import RetryPolicy

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL_NAME: Final = "strom"
"""Not the one of Kafka's own workers: in one group they and strom's reject each other instead of
misreading each other's assignments."""
_RETRY: Final = RetryPolicy(first_s=0.25, longest_s=1.0)
# The leader looks again after so long when something has no owner yet.
_REPAIR_S: Final = 2.0


@dataclass(frozen=True)
class Share:
    """What a worker was given."""

    units: frozenset[Unit] = frozenset()
    config_end: int = 0
    """How far the leader had read the config topic when it decided."""
    generation: int = -1
    leader: str = ""


class Worker(Protocol):
    """What the membership asks of its worker; all calls come from the membership's thread."""

    def claims(self) -> Iterable[Unit]:
        """What runs here, or was given to us and may be started any moment."""

    def work(self) -> tuple[Iterable[Unit], int]:
        """Everything that needs an owner, from the very end of the config topic, and that end."""

    def wanted(self) -> frozenset[Unit]:
        """Everything that needs an owner, as far as it is known here."""

    def given(self, share: Share) -> None:
        """Take over a share: start what is new, stop what is gone."""

    def lost(self) -> None:
        """Stop everything now, and return when it has stopped: others may have been given it."""


@dataclass(frozen=True)
class WorkerGroup:
    """Which group of workers, and its times."""

    name: str
    worker_id: str
    session_ms: int
    heartbeat_ms: int


class Membership:
    """Runs in a thread of its own from `start` to `stop`."""

    def __init__(self, connection: ConnectionSettings, group: WorkerGroup, worker: Worker) -> None:
        self._group = group
        self._worker = worker
        self._client = ProtocolClient(connection, group.worker_id)
        self._member = ClassicGroupMember(
            self._client,
            GroupMemberSettings(group.name, PROTOCOL_TYPE, PROTOCOL_NAME, group.session_ms),
        )
        self._is_leader = False
        self._shared_out: frozenset[Unit] = frozenset()
        self._given_out: frozenset[Unit] = frozenset()
        self._repair_at = 0.0
        self._stopping = threading.Event()
        self._rejoin = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connect-group", daemon=True)
        self.leader_id = ""
        """The worker that leads, by its id; empty before the first round."""

    def start(self) -> None:
        """Join in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the group. Everything must have stopped before."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        self._client.close()

    def rejoin(self) -> None:
        """Ask for another round: something was let go, or came to be."""
        self._rejoin.set()
        self._wake.set()

    def look(self) -> None:
        """Work may have come or gone: a leader looks now, and not with its next report."""
        self._wake.set()

    def holds_lease(self) -> bool:
        """Whether this worker's share is surely its own at this moment."""
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
                self._worker.lost()
            # OSError is a shortage, of descriptors for instance; the last three are for a member that
            # joined with metadata of another form.
            except (StromError, OSError, ValueError, LookupError, TypeError) as error:
                log.warning("This worker is not in its group: %s", self._explained(error))
                if not self.holds_lease():
                    self._member.give_up_lease()
                    self._worker.lost()
                self._stopping.wait(_RETRY.delay(attempt, random.random()))  # noqa: S311 - jitter
                attempt += 1
        self._leave()

    def _join(self) -> None:
        self._rejoin.clear()
        claims = sorted(self._worker.claims())
        joined = self._member.join(
            _packed({"worker": self._group.worker_id, "claims": [list(unit) for unit in claims]})
        )
        self._is_leader = joined.is_leader
        assigned = self._member.sync(self._lead(joined) if joined.is_leader else {})
        self._take(assigned, joined.generation)

    def _lead(self, joined: JoinedGroup) -> dict[str, bytes]:
        """Assign everything to the members."""
        members = {member: json.loads(data) for member, data in joined.members.items()}
        claims = {
            member: [Unit(name, task) for name, task in one["claims"]]
            for member, one in members.items()
        }
        units, config_end = self._worker.work()
        self._shared_out = frozenset(units)
        shares = share_out(self._shared_out, claims)
        self._given_out = frozenset().union(*shares.values())
        return {
            member: _packed(
                {
                    "units": [list(unit) for unit in sorted(share)],
                    "end": config_end,
                    "leader": members[joined.member_id]["worker"],
                }
            )
            for member, share in shares.items()
        }

    def _take(self, data: bytes, generation: int) -> None:
        given: dict[str, Any] = json.loads(data) if data else {"units": [], "end": 0, "leader": ""}
        units = frozenset(Unit(name, task) for name, task in given["units"])
        self.leader_id = given["leader"]
        self._repair_at = time.monotonic() + _REPAIR_S
        self._worker.given(Share(units, given["end"], generation, given["leader"]))

    def _send_heartbeats(self) -> None:
        """Until the worker stops, or another round is due."""
        while not self._stopping.is_set():
            self._wake.wait(self._group.heartbeat_ms / 1000)
            self._wake.clear()
            if self._stopping.is_set():
                return
            if self._rejoin.is_set() or self._something_has_no_owner():
                return
            self._member.heartbeat()

    def _something_has_no_owner(self) -> bool:
        """For the leader: whether work came, went, or could not be given out last time."""
        if not self._is_leader:
            return False
        if self._worker.wanted() != self._shared_out:
            return True
        return self._given_out != self._shared_out and time.monotonic() >= self._repair_at

    def _explained(self, error: Exception) -> str:
        """The error with what to do about it, where the broker's own words do not suffice."""
        code = error.code if isinstance(error, ApiError) else None
        if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return (
                f"The group {self._group.name} has members of another kind, such as Kafka's own "
                "workers. Use another group.id, or stop those."
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
            log.debug(
                "The group will notice at the session timeout that this worker left: %s", error
            )


def _packed(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


Lease = Callable[[], bool]
"""Whether the caller's unit is surely still its own."""
