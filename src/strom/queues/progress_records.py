"""The second log of a queue: which of its messages are removed, and which were delivered.

Every record is JSON: `gone` holds ranges of removed positions, `delivered` is the position after the
last delivered one, `returned` counts returns by position. A record with the key `all` is a snapshot that
replaces everything before it, so that the log can be truncated there.
"""

import json
from collections.abc import Iterable
from typing import Any

from strom.model.errors import CorruptData
from strom.queues.acknowledged import Acknowledged, Range

CHANGE = b"change"
ALL = b"all"


class QueueProgress:
    """The state that the records of a queue add up to."""

    def __init__(self) -> None:
        self.acknowledged = Acknowledged()
        self.delivered = 0
        self.returned: dict[int, int] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record; raise CorruptData if it is not one."""
        try:
            record = json.loads(value or b"")
            if key == ALL:
                self.acknowledged = Acknowledged()
                self.returned.clear()
            for start, end in record["gone"]:
                self.acknowledged.add_range(start, end)
            self.delivered = max(self.delivered, record["delivered"])
            for position, count in record.get("returned", ()):
                self.returned[position] = count
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptData(f"invalid progress record of a queue: {error}") from None

    def reconcile(self, start: int, end: int) -> bool:
        """Reconcile with the message log's range; True if that dropped state beyond its end.

        After a power cut the message log may have lost more than this one. Positions that it lost are
        assigned to new messages, which must not count as removed.
        """
        self.acknowledged.add_range(0, start)
        beyond = self.delivered > end or any(last > end for _, last in self.acknowledged.beyond())
        beyond = beyond or self.acknowledged.floor > end
        self.acknowledged.cut(end)
        self.delivered = min(self.delivered, end)
        self.returned = {
            position: count
            for position, count in self.returned.items()
            if position < end and position not in self.acknowledged
        }
        return beyond


def encode_change(
    gone: Iterable[Range], delivered: int, returned: Iterable[tuple[int, int]] = ()
) -> bytes:
    """The value of a record that holds a change."""
    record: dict[str, Any] = {"delivered": delivered, "gone": list(gone)}
    returned = list(returned)
    if returned:
        record["returned"] = returned
    return json.dumps(record, separators=(",", ":")).encode()


def encode_snapshot(
    acknowledged: Acknowledged, end: int, delivered: int, returned: Iterable[tuple[int, int]]
) -> bytes:
    """The value of a record that holds everything up to a position."""
    gone = [(0, min(acknowledged.floor, end))]
    gone += [(start, min(stop, end)) for start, stop in acknowledged.beyond() if start < end]
    return encode_change(gone, min(delivered, end), returned)
