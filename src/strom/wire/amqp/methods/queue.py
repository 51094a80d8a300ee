"""Queues and their bindings."""

from strom.model.tables import Table
from strom.wire.amqp.schema import Method, bit, long, short, shortstr, table


class Declare(Method, class_id=50, method_id=10):
    """Creates a queue unless it exists; if passive, only checks. The server generates a missing name."""

    ticket: int = short()
    queue: str = shortstr()
    passive: bool = bit()
    durable: bool = bit()
    exclusive: bool = bit()
    auto_delete: bool = bit()
    no_wait: bool = bit()
    arguments: Table = table()


class DeclareOk(Method, class_id=50, method_id=11):
    queue: str = shortstr()
    message_count: int = long()
    consumer_count: int = long()


class Bind(Method, class_id=50, method_id=20):
    ticket: int = short()
    queue: str = shortstr()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    no_wait: bool = bit()
    arguments: Table = table()


class BindOk(Method, class_id=50, method_id=21):
    pass


class Purge(Method, class_id=50, method_id=30):
    """Deletes the ready messages of a queue; unacknowledged ones stay."""

    ticket: int = short()
    queue: str = shortstr()
    no_wait: bool = bit()


class PurgeOk(Method, class_id=50, method_id=31):
    message_count: int = long()


class Delete(Method, class_id=50, method_id=40):
    ticket: int = short()
    queue: str = shortstr()
    if_unused: bool = bit()
    if_empty: bool = bit()
    no_wait: bool = bit()


class DeleteOk(Method, class_id=50, method_id=41):
    message_count: int = long()


class Unbind(Method, class_id=50, method_id=50):
    """Removes a binding of a queue; it has no `no_wait`."""

    ticket: int = short()
    queue: str = shortstr()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    arguments: Table = table()


class UnbindOk(Method, class_id=50, method_id=51):
    pass
