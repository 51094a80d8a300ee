"""Access tickets, which only old clients still ask for; every ticket is as good as another."""

from strom.wire.amqp.schema import Method, bit, short, shortstr


class Request(Method, class_id=30, method_id=10):
    """The client asks for a ticket."""

    realm: str = shortstr("/data")
    exclusive: bool = bit()
    passive: bool = bit(True)
    active: bool = bit(True)
    write: bool = bit(True)
    read: bool = bit(True)


class RequestOk(Method, class_id=30, method_id=11):
    """Here it is."""

    ticket: int = short(1)


METHODS: tuple[type[Method], ...] = (Request, RequestOk)
