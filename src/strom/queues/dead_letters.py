"""Dead-lettering: how a message changes when its queue passes it to a dead letter exchange.

Its header `x-death` has one entry with a count for each queue and reason, the newest first. A message
that reaches the same queue again without a rejection in between is in a cycle and is dropped, as in
RabbitMQ.
"""

from typing import Any

from strom.model.tables import Timestamp
from strom.queues.message import Message

DEATHS = "x-death"
REJECTED = "rejected"
EXPIRED = "expired"
MAX_LENGTH = "maxlen"
DELIVERY_LIMIT = "delivery_limit"


def dead_letter(
    message: Message,
    *,
    queue: str,
    reason: str,
    exchange: str,
    routing_key: str | None,
    now_ms: int,
) -> Message:
    """The message as it is published to the dead letter exchange."""
    headers = message.headers or {}
    keys = [message.routing_key, *_cc_keys(headers)]
    entry: dict[str, Any] = {
        "count": 1,
        "reason": reason,
        "queue": queue,
        "time": Timestamp(now_ms // 1000),
        "exchange": message.exchange,
        "routing-keys": keys,
    }
    if reason == EXPIRED and message.expiration_ms is not None:
        entry["original-expiration"] = message.parsed.expiration
    changes: dict[str, Any] = {DEATHS: _with_entry(deaths(headers), entry)}
    if "x-first-death-reason" not in headers:
        changes["x-first-death-reason"] = reason
        changes["x-first-death-queue"] = queue
        changes["x-first-death-exchange"] = message.exchange
    # With x-dead-letter-routing-key the CC keys no longer apply.
    without = ("CC",) if routing_key is not None else ()
    properties = message.parsed.changed(changes, without=without, keep_expiration=False)
    key = message.routing_key if routing_key is None else routing_key
    return Message(exchange, key, properties, message.body, now_ms)


def deaths(headers: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of `x-death`; a client may have sent anything."""
    entries = headers.get(DEATHS)
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict)]


def is_cycle(message: Message, queue: str) -> bool:
    """Whether a dead-lettered message reaches a queue again without a rejection in between."""
    for entry in deaths(message.headers or {}):
        if entry.get("reason") == REJECTED:
            return False
        if entry.get("queue") == queue:
            return True
    return False


def _with_entry(entries: list[dict[str, Any]], entry: dict[str, Any]) -> list[dict[str, Any]]:
    others = []
    for earlier in entries:
        if earlier.get("queue") == entry["queue"] and earlier.get("reason") == entry["reason"]:
            count = earlier.get("count", 0)
            entry = earlier | {"count": (count if isinstance(count, int) else 0) + 1}
        else:
            others.append(earlier)
    return [entry, *others]


def _cc_keys(headers: dict[str, Any]) -> list[str]:
    keys = headers.get("CC")
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
