"""Exchanges, and the bindings between them."""

from strom.model.tables import Table
from strom.wire.amqp.schema import Method, bit, short, shortstr, table


class Declare(Method, class_id=40, method_id=10):
    """Creates an exchange unless it exists; if passive, only checks that it exists."""

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
    pass


class Delete(Method, class_id=40, method_id=20):
    """Deletes an exchange and its bindings."""

    ticket: int = short()
    exchange: str = shortstr()
    if_unused: bool = bit()
    no_wait: bool = bit()


class DeleteOk(Method, class_id=40, method_id=21):
    pass


class _Binding(Method):
    ticket: int = short()
    destination: str = shortstr()
    source: str = shortstr()
    routing_key: str = shortstr()
    no_wait: bool = bit()
    arguments: Table = table()


class Bind(_Binding, class_id=40, method_id=30):
    """Binds one exchange to another (RabbitMQ extension)."""


class BindOk(Method, class_id=40, method_id=31):
    pass


class Unbind(_Binding, class_id=40, method_id=40):
    """Removes a binding between exchanges (RabbitMQ extension)."""


class UnbindOk(Method, class_id=40, method_id=51):
    """Its method id is 51 in RabbitMQ, not 41 as the pattern suggests."""
