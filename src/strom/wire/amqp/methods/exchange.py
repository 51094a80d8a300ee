"""Exchanges, and the bindings between them."""

from strom.model.tables import Table
from strom.wire.amqp.schema import Method, bit, short, shortstr, table


class Declare(Method, class_id=40, method_id=10):
    """Make sure that an exchange is there; if passive, only ask."""

    ticket: int = short()
    exchange: str = shortstr()
    type: str = shortstr("direct")
    passive: bool = bit()
    durable: bool = bit()
    auto_delete: bool = bit()
    internal: bool = bit()
    no_wait: bool = bit()
    arguments: Table = table()


class DeclareOk(Method, class_id=40, method_id=11):
    """It is there."""


class Delete(Method, class_id=40, method_id=20):
    """Remove an exchange with its bindings."""

    ticket: int = short()
    exchange: str = shortstr()
    if_unused: bool = bit()
    no_wait: bool = bit()


class DeleteOk(Method, class_id=40, method_id=21):
    """It is gone."""


class Bind(Method, class_id=40, method_id=30):
    """Let messages pass from one exchange to another (RabbitMQ's extension)."""

    ticket: int = short()
    destination: str = shortstr()
    source: str = shortstr()
    routing_key: str = shortstr()
    no_wait: bool = bit()
    arguments: Table = table()


class BindOk(Method, class_id=40, method_id=31):
    """They pass."""


class Unbind(Method, class_id=40, method_id=40):
    """Undo a binding between exchanges (RabbitMQ's extension)."""

    ticket: int = short()
    destination: str = shortstr()
    source: str = shortstr()
    routing_key: str = shortstr()
    no_wait: bool = bit()
    arguments: Table = table()


class UnbindOk(Method, class_id=40, method_id=51):
    """They no longer pass. Its number is 51, where one would expect 41."""


METHODS: tuple[type[Method], ...] = (
    Declare,
    DeclareOk,
    Delete,
    DeleteOk,
    Bind,
    BindOk,
    Unbind,
    UnbindOk,
)
