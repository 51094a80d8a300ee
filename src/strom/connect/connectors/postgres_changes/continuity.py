"""Whether the server still has all changes after a position, so that the change stream has no gap.

Only what is stored as a source offset is confirmed to the server. So a slot whose confirmed position
is not ahead of the stored one is unchanged; one that is ahead was recreated or read by another client.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self

from strom.connect.api import ConnectError
from strom.connect.connectors.postgres_changes.positions import Position
from strom.connect.connectors.postgres_changes.protocol import format_lsn, parse_lsn

RESET: Final = (
    "To start with a new snapshot, stop the connector, reset its offsets (DELETE "
    "/connectors/NAME/offsets) and resume it."
)


class Slot(NamedTuple):
    """The state of a replication slot."""

    confirmed: int
    lost: bool
    """Whether the server removed WAL that the slot needs."""


class SystemIdentity(NamedTuple):
    """The response to IDENTIFY_SYSTEM: the server's identity, and where its WAL ends."""

    system: str
    timeline: int
    lsn: int


class Origin(NamedTuple):
    """The server that a stored position belongs to."""

    system: str
    timeline: int

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> Self | None:
        """Read a source offset; None for one of strom 0.1.0, which did not store the server."""
        if "system" not in offset:
            return None
        return cls(str(offset["system"]), int(offset["timeline"]))


def refuse_other_slot(name: str, slot: Slot | None, position: Position) -> None:
    """Raise ConnectError unless the slot still has all changes after this position."""
    if slot is None:
        raise ConnectError(
            f"The replication slot {name} is gone, and with it the changes after "
            f"{format_lsn(position.lsn)}. {RESET}"
        )
    if slot.lost:
        raise ConnectError(
            f"The server removed WAL that the replication slot {name} needs (see "
            f"max_slot_wal_keep_size), and with them changes after {format_lsn(position.lsn)}. Drop "
            f"the slot: SELECT pg_drop_replication_slot('{name}'). {RESET}"
        )
    if slot.confirmed > position.lsn:
        raise ConnectError(
            f"The replication slot {name} starts at {format_lsn(slot.confirmed)}, but the connector "
            f"has read up to {format_lsn(position.lsn)}: the slot was recreated or advanced, or another "
            f"client reads it, and the changes between are missing. {RESET} If they do not matter, "
            f'set "lsn" of the offset to {slot.confirmed} instead.'
        )


def refuse_other_server(
    position: Position, stored: Origin | None, server: SystemIdentity, history: Callable[[int], str]
) -> None:
    """Raise ConnectError unless the position is in this server's WAL.

    `history` returns the history file of a timeline, as PostgreSQL writes it.
    """
    reached = max(position.lsn, position.commit_lsn)
    if stored is not None and stored.system != server.system:
        raise ConnectError(
            f"The database has the system identifier {server.system}, but the connector has read from "
            f"{stored.system}: it is another server, or a copy restored from a dump. {RESET}"
        )
    if stored is not None and stored.timeline != server.timeline:
        end = None
        if stored.timeline < server.timeline:
            end = _end_of(stored.timeline, history(server.timeline))
        if end is None or reached > end:
            raise ConnectError(
                f"The server is on timeline {server.timeline}, which does not have what the connector "
                f"has read up to {format_lsn(reached)} of timeline {stored.timeline}: it was "
                f"restored from a backup, or promoted before it had received this. {RESET}"
            )
    if reached > server.lsn:
        raise ConnectError(
            f"The server's WAL ends at {format_lsn(server.lsn)}, but the connector has read up to "
            f"{format_lsn(reached)}: the database was restored from an older state. {RESET}"
        )


def _end_of(timeline: int, history: str) -> int | None:
    """Where a timeline ends in a descendant's history; None if it is not an ancestor."""
    for line in history.splitlines():
        number, _, rest = line.partition("\t")
        if number.strip() == str(timeline):
            return parse_lsn(rest.split()[0])
    return None
