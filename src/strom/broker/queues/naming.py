"""Names of the internal topics of queues."""

import hashlib

from strom.model.topics import MAX_TOPIC_NAME_LENGTH, QUEUE_TOPIC_PREFIX

DEFAULT_VHOST = "/"
NO_QUEUE = ""
"""Stands for the log of delayed messages; no queue can have this name."""
_KEPT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.")
_ROOM = MAX_TOPIC_NAME_LENGTH - 40


def topic_of(vhost: str, queue: str, attempt: int = 0) -> str:
    """A valid topic name, unique for every queue and attempt.

    Characters that a topic name cannot have are escaped as `-` and two hexadecimal digits. So is `_`,
    because in Kafka's metric names it collides with the dot.
    """
    name = f"{QUEUE_TOPIC_PREFIX}{_escape(vhost)}--{_escape(queue)}"
    if attempt:
        name += f"--{attempt}"
    if len(name) > _ROOM:
        name = name[:_ROOM] + "--" + hashlib.sha256(name.encode()).hexdigest()[:32]
    return name


def _escape(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if chr(byte) in _KEPT else f"-{byte:02x}" for byte in data)
