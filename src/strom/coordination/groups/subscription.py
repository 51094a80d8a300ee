"""The topics in a classic consumer's subscription."""

import struct

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(subscription: bytes) -> set[str] | None:
    """The topics in a subscription of the protocol type `consumer`; None if it is malformed.

    It begins with a version (int16) and the topics (int32 count, then int16 length and UTF-8 each); the
    rest is for the clients.
    """
    try:
        (count,) = _INT32.unpack_from(subscription, 2)
        position, topics = 6, set()
        for _ in range(count):
            (length,) = _INT16.unpack_from(subscription, position)
            position += 2 + length
            if length < 0 or position > len(subscription):
                return None
            topics.add(subscription[position - length : position].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return topics
