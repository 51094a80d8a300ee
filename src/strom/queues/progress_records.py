"""The second log of a queue: which of its messages are gone, and which were delivered.

Every record is JSON: `gone` holds ranges of positions, `delivered` is the position after the last one
that a consumer was given, `returned` counts how often single messages came back. A record with the key
`all` stands for everything before it, so that the log can be cut there.
"""

import json
from collections.abc import Iterable
from typing import Any

from strom.model.errors import CorruptData
from strom.queues.acknowledged import Acknowledged, Range

CHANGE = b"change"
ALL = b"all"


class Progress:
    """What the records of a queue say together."""

    def __init__(self) -> None:
        self.acknowledged = Acknowledged()
        self.delivered = 0
        self.returned: dict[int, int] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in one record; CorruptData if it is none."""
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
            raise CorruptData(f"no record of a queue's progress: {error}") from None

    def fit(self, start: int, end: int) -> bool:
        """Fit to the messages that there are; whether that changed what was said of later ones.

        After a power cut the log of the messages may have lost more than this one. Positions that
        were never written will be given to others, who must not be taken for gone.
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
    """The value of a record that tells what is new."""
    record: dict[str, Any] = {"delivered": delivered, "gone": list(gone)}
    returned = list(returned)
    if returned:
        record["returned"] = returned
    return json.dumps(record, separators=(",", ":")).encode()


def encode_all(
    acknowledged: Acknowledged, end: int, delivered: int, returned: Iterable[tuple[int, int]]
) -> bytes:
    """The value of a record that tells everything up to a position."""
    gone = [(0, min(acknowledged.floor, end))]
    gone += [(start, min(stop, end)) for start, stop in acknowledged.beyond() if start < end]
    return encode_change(gone, min(delivered, end), returned)
