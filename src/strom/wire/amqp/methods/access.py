"""Access tickets of AMQP 0-8, which old clients still request; tickets grant nothing."""

from strom.wire.amqp.schema import Method, bit, short, shortstr


class Request(Method, class_id=30, method_id=10):
    realm: str = shortstr("/data")
    exclusive: bool = bit()
    passive: bool = bit(True)
    active: bool = bit(True)
    write: bool = bit(True)
    read: bool = bit(True)


class RequestOk(Method, class_id=30, method_id=11):
    ticket: int = short(1)
