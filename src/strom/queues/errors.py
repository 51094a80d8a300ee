"""Why queues refuse what a client asks for. Each protocol has its own way to report it."""

from enum import Enum, auto

from strom.model.errors import StromError


class Reason(Enum):
    """The kinds of refusal."""

    NOT_FOUND = auto()
    ACCESS_REFUSED = auto()
    RESOURCE_LOCKED = auto()
    """It belongs to another connection."""
    PRECONDITION_FAILED = auto()
    """It does not fit what is there."""
    COMMAND_INVALID = auto()
    NOT_ALLOWED = auto()
    RESOURCE_ERROR = auto()
    """The disk refuses it: a retry may succeed."""


class QueueError(StromError):
    """A request that queues refuse, with the reason and a text for the client."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text

    def __str__(self) -> str:
        return f"{self.reason.name} - {self.text}"


def not_found(kind: str, name: str, vhost: str) -> QueueError:
    """There is no such queue or exchange."""
    return QueueError(Reason.NOT_FOUND, f"no {kind} '{name}' in vhost '{vhost}'")


def precondition_failed(text: str) -> QueueError:
    """The request does not fit what is there."""
    return QueueError(Reason.PRECONDITION_FAILED, text)


def access_refused(text: str) -> QueueError:
    """No client may do that."""
    return QueueError(Reason.ACCESS_REFUSED, text)
