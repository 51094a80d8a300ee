"""Queues and their bindings."""

from strom.model.tables import Table
from strom.wire.amqp.schema import Method, bit, long, short, shortstr, table


class Declare(Method, class_id=50, method_id=10):
    """Make sure that a queue is there; if passive, only ask. No name: the server makes one up."""

    ticket: int = short()
    queue: str = shortstr()
    passive: bool = bit()
    durable: bool = bit()
    exclusive: bool = bit()
    auto_delete: bool = bit()
    no_wait: bool = bit()
    arguments: Table = table()


class DeclareOk(Method, class_id=50, method_id=11):
    """It is there, with so much in it."""

    queue: str = shortstr()
    message_count: int = long()
    consumer_count: int = long()


class Bind(Method, class_id=50, method_id=20):
    """Let messages pass from an exchange to a queue."""

    ticket: int = short()
    queue: str = shortstr()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    no_wait: bool = bit()
    arguments: Table = table()


class BindOk(Method, class_id=50, method_id=21):
    """They pass."""


class Purge(Method, class_id=50, method_id=30):
    """Remove what waits in a queue."""

    ticket: int = short()
    queue: str = shortstr()
    no_wait: bool = bit()


class PurgeOk(Method, class_id=50, method_id=31):
    """So many were removed."""

    message_count: int = long()


class Delete(Method, class_id=50, method_id=40):
    """Remove a queue with what waits in it."""

    ticket: int = short()
    queue: str = shortstr()
    if_unused: bool = bit()
    if_empty: bool = bit()
    no_wait: bool = bit()


class DeleteOk(Method, class_id=50, method_id=41):
    """It is gone, and so many messages with it."""

    message_count: int = long()


class Unbind(Method, class_id=50, method_id=50):
    """Undo a binding of a queue; there is no way not to wait."""

    ticket: int = short()
    queue: str = shortstr()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    arguments: Table = table()


class UnbindOk(Method, class_id=50, method_id=51):
    """It is undone."""


METHODS: tuple[type[Method], ...] = (
    Declare,
    DeclareOk,
    Bind,
    BindOk,
    Purge,
    PurgeOk,
    Delete,
    DeleteOk,
    Unbind,
    UnbindOk,
)
