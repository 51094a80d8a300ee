"""Why queues refuse a request; each protocol reports it in its own way."""

from enum import Enum, auto

from strom.model.errors import StromError


class Reason(Enum):
    """The AMQP 0-9-1 reply codes that queues raise."""

    NOT_FOUND = auto()
    ACCESS_REFUSED = auto()
    RESOURCE_LOCKED = auto()
    """It belongs to another connection."""
    PRECONDITION_FAILED = auto()
    """It conflicts with what exists."""
    COMMAND_INVALID = auto()
    NOT_ALLOWED = auto()
    RESOURCE_ERROR = auto()
    """The disk refuses the write: a retry may succeed."""


class QueueError(StromError):
    """A request that queues refuse, with the reason and a text for the client."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text

    def __str__(self) -> str:
        return f"{self.reason.name} - {self.text}"


def not_found(kind: str, name: str, vhost: str) -> QueueError:
    return QueueError(Reason.NOT_FOUND, f"no {kind} '{name}' in vhost '{vhost}'")


def precondition_failed(text: str) -> QueueError:
    return QueueError(Reason.PRECONDITION_FAILED, text)


def access_refused(text: str) -> QueueError:
    return QueueError(Reason.ACCESS_REFUSED, text)
