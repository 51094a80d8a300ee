"""The `x-` arguments of queues: their names, valid values, and meaning."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strom.queues.definitions import Arguments
from strom.queues.errors import precondition_failed

MAX_PRIORITY = 255
_MAX_MS = 2**32 - 1


@dataclass(frozen=True)
class QueueRules:
    """The behaviour of a queue, parsed from its arguments."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    max_priority: int = 0
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    single_active_consumer: bool = False
    counts_deliveries: bool = False
    """As quorum queues do: a redelivered message carries the header `x-delivery-count`."""

    @property
    def is_limited(self) -> bool:
        return self.max_length is not None or self.max_length_bytes is not None

    @property
    def may_drop_returned(self) -> bool:
        """Whether requeued messages may be dropped or dead-lettered."""
        return self.delivery_limit is not None or (self.is_limited and not self.rejects)

    @property
    def rejects(self) -> bool:
        """Whether a full queue rejects the newest message instead of dropping the oldest."""
        return self.overflow != "drop-head"


def read_rules(arguments: Arguments) -> QueueRules:
    """Parse the arguments of a queue; raise PRECONDITION_FAILED for an invalid one."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        known = _KNOWN.get(name)
        if known is not None:
            attribute, check = known
            problem = check(value)
            if problem:
                raise precondition_failed(f"invalid arg '{name}': {problem}")
            found[attribute] = value
    kind = found.pop("kind", "classic")
    found["counts_deliveries"] = kind == "quorum"
    if "dead_letter_routing_key" in found and "dead_letter_exchange" not in found:
        raise precondition_failed(
            "invalid arg 'x-dead-letter-routing-key': it requires x-dead-letter-exchange"
        )
    return QueueRules(**found)


def _integer(lowest: int, highest: int) -> Callable[[object], str | None]:
    def check(value: object) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{value!r} is not an integer"
        return None if lowest <= value <= highest else f"{value} is not in {lowest}..{highest}"

    return check


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else f"{value!r} is not a string"


def _boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else f"{value!r} is not a boolean"


def _one_of(*choices: str) -> Callable[[object], str | None]:
    def check(value: object) -> str | None:
        return None if value in choices else f"{value!r} is not one of {', '.join(choices)}"

    return check


_KNOWN: dict[str, tuple[str, Callable[[object], str | None]]] = {
    "x-message-ttl": ("message_ttl_ms", _integer(0, _MAX_MS)),
    "x-expires": ("expires_ms", _integer(1, _MAX_MS)),
    "x-max-length": ("max_length", _integer(0, 2**63 - 1)),
    "x-max-length-bytes": ("max_length_bytes", _integer(0, 2**63 - 1)),
    "x-overflow": ("overflow", _one_of("drop-head", "reject-publish", "reject-publish-dlx")),
    "x-dead-letter-exchange": ("dead_letter_exchange", _text),
    "x-dead-letter-routing-key": ("dead_letter_routing_key", _text),
    "x-max-priority": ("max_priority", _integer(0, MAX_PRIORITY)),
    "x-delivery-limit": ("delivery_limit", _integer(0, 2**31 - 1)),
    "x-consumer-timeout": ("consumer_timeout_ms", _integer(0, _MAX_MS)),
    "x-single-active-consumer": ("single_active_consumer", _boolean),
    "x-queue-type": ("kind", _one_of("classic", "quorum")),
}


def differing_argument(one: Arguments, other: Arguments) -> str | None:
    """The name of the first known argument whose values differ; None if all are equal."""
    for name in _KNOWN:
        if one.get(name) != other.get(name):
            return name
    return None
