"""A worker's place in the group of workers: joins, reports, leads when told to, and knows its lease.

The lease is the time up to which nobody else can have been given this worker's share: the group
forgets a worker only when it has been silent for the session's timeout, and the lease counts from
when the last report that was answered had been *sent*. A worker whose lease has run out stops its
tasks by itself, whether the broker can be reached or not.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from strom.connect.api import ConnectError
from strom.connect.runtime import group_wire
from strom.connect.runtime.assignment import Unit, share_out
from strom.connect.runtime.group_connection import GroupConnection

log = logging.getLogger(__name__)

RETRY_S = 0.5
_CONNECT_S = 5.0
# The leader looks again after so long when something has no owner yet.
_REPAIR_S = 2.0


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
class Group:
    """Which group, where, and its times."""

    name: str
    addresses: tuple[tuple[str, int], ...]
    settings: Mapping[str, str]
    worker_id: str
    session_ms: int
    heartbeat_ms: int


class _Expelled(Exception):
    """The group has gone on without us."""


class _Again(Exception):
    """The group rebalances: join again."""


class Membership:
    """Runs in a thread of its own from `start` to `stop`."""

    def __init__(self, group: Group, worker: Worker) -> None:
        self._group = group
        self._worker = worker
        self._member_id = ""
        self._generation = -1
        self._is_leader = False
        self._shared_out: frozenset[Unit] = frozenset()
        self._given_out: frozenset[Unit] = frozenset()
        self._repair_at = 0.0
        self._lease_until = 0.0
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

    def rejoin(self) -> None:
        """Ask for another round: something was let go, or came to be."""
        self._rejoin.set()
        self._wake.set()

    def look(self) -> None:
        """Work may have come or gone: a leader looks now, and not with its next report."""
        self._wake.set()

    def holds_lease(self) -> bool:
        """Whether this worker's share is surely its own at this moment."""
        return time.monotonic() < self._lease_until

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._connected() as connection:
                    self._serve(connection)
            except _Expelled as reason:
                log.warning("The group went on without this worker (%s); it joins anew.", reason)
                self._member_id = ""
                self._forget()
            except (OSError, ValueError, ConnectError) as error:
                log.warning("This worker is not in its group: %s", error)
                if not self.holds_lease():
                    self._forget()
                self._stopping.wait(RETRY_S)

    def _forget(self) -> None:
        self._lease_until = 0.0
        self._generation = -1
        self._worker.lost()

    def _connected(self) -> GroupConnection:
        """A connection to the group's coordinator."""
        group, problem = self._group, "no address"
        for address in group.addresses:
            try:
                with GroupConnection(address, group.settings, group.worker_id, _CONNECT_S) as first:
                    answer = first.ask(group_wire.find_coordinator(group.name), _CONNECT_S)
            except OSError as error:
                problem = f"{address[0]}:{address[1]}: {error}"
                continue
            found = group_wire.read_coordinator(answer)
            if found.error:
                raise ConnectError(f"The group has no coordinator yet (error {found.error}).")
            place = (found.host, found.port)
            return GroupConnection(place, group.settings, group.worker_id, _CONNECT_S)
        raise ConnectError(problem)

    def _serve(self, connection: GroupConnection) -> None:
        """Take part in rounds until told to stop."""
        while not self._stopping.is_set():
            try:
                self._rejoin.clear()
                self._join(connection)
                self._report(connection)
            except _Again:
                continue
        self._leave(connection)

    def _join(self, connection: GroupConnection) -> None:
        group = self._group
        claims = sorted(self._worker.claims())
        metadata = _packed({"worker": group.worker_id, "claims": [list(unit) for unit in claims]})
        sent = time.monotonic()
        request = group_wire.join_group(
            group.name, self._member_id, metadata, group.session_ms, group.session_ms
        )
        answer = connection.ask(request, group.session_ms / 1000 + _CONNECT_S)
        joined = group_wire.read_joined(answer)
        if joined.error == group_wire.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            raise _Again
        self._check(joined.error)
        self._member_id, self._generation = joined.member_id, joined.generation
        self._renew(sent)
        self._is_leader = joined.leader == joined.member_id
        shares = self._lead(joined) if self._is_leader else {}
        request = group_wire.sync_group(group.name, self._generation, self._member_id, shares)
        sent = time.monotonic()
        error, data = group_wire.read_synced(connection.ask(request, group.session_ms / 1000))
        self._check(error)
        self._renew(sent)
        self._take(data)

    def _lead(self, joined: group_wire.Joined) -> dict[str, bytes]:
        """Share everything out among all members."""
        told = {member: json.loads(data) for member, data in joined.members.items()}
        claims = {
            member: [Unit(name, task) for name, task in one["claims"]]
            for member, one in told.items()
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
                    "leader": told[joined.member_id]["worker"],
                }
            )
            for member, share in shares.items()
        }

    def _take(self, data: bytes) -> None:
        told: dict[str, Any] = json.loads(data) if data else {"units": [], "end": 0, "leader": ""}
        units = frozenset(Unit(name, task) for name, task in told["units"])
        self.leader_id = told["leader"]
        self._repair_at = time.monotonic() + _REPAIR_S
        self._worker.given(Share(units, told["end"], self._generation, told["leader"]))

    def _report(self, connection: GroupConnection) -> None:
        """Send heartbeats until another round is due."""
        group = self._group
        while not self._stopping.is_set():
            self._wake.wait(group.heartbeat_ms / 1000)
            self._wake.clear()
            if self._stopping.is_set():
                return
            if self._rejoin.is_set() or self._something_has_no_owner():
                raise _Again
            sent = time.monotonic()
            request = group_wire.heartbeat(group.name, self._generation, self._member_id)
            error = group_wire.read_error(connection.ask(request, group.session_ms / 1000))
            self._check(error)
            self._renew(sent)

    def _something_has_no_owner(self) -> bool:
        """For the leader: whether work came, went, or could not be given out last time."""
        if not self._is_leader:
            return False
        if self._worker.wanted() != self._shared_out:
            return True
        return self._given_out != self._shared_out and time.monotonic() >= self._repair_at

    def _renew(self, sent: float) -> None:
        self._lease_until = sent + self._group.session_ms / 1000

    def _check(self, error: int) -> None:
        if error == group_wire.NONE:
            return
        if error == group_wire.REBALANCE_IN_PROGRESS:
            raise _Again
        if error in {group_wire.UNKNOWN_MEMBER, group_wire.ILLEGAL_GENERATION}:
            raise _Expelled(f"error {error}")
        if error == group_wire.INCONSISTENT_PROTOCOL:
            raise ConnectError(
                f"The group {self._group.name} has members of another kind, such as Kafka's own "
                "workers. Use another group.id, or stop those."
            )
        if error == group_wire.INVALID_SESSION_TIMEOUT:
            raise ConnectError(
                f"The broker does not allow session.timeout.ms={self._group.session_ms}; its limits "
                "are group.min.session.timeout.ms and group.max.session.timeout.ms."
            )
        raise ConnectError(f"The coordinator answered with error {error}.")

    def _leave(self, connection: GroupConnection) -> None:
        try:
            connection.ask(group_wire.leave_group(self._group.name, self._member_id), 2)
        except OSError:
            log.debug("The group hears of our leaving by our silence.")


def _packed(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def addresses(servers: str) -> tuple[tuple[str, int], ...]:
    """Host and port of every broker in `bootstrap.servers`."""
    found = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


Lease = Callable[[], bool]
"""Whether the caller's unit is surely still its own."""
