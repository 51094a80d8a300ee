"""Publishing, consuming and acknowledging messages."""

from strom.model.tables import Table
from strom.wire.amqp.schema import Method, bit, long, longlong, short, shortstr, table


class Qos(Method, class_id=60, method_id=10):
    """The prefetch limit: how much may be delivered without being acknowledged."""

    prefetch_size: int = long()
    prefetch_count: int = short()
    global_: bool = bit()
    """RabbitMQ's meaning: for all consumers of the channel together, not for each new consumer."""


class QosOk(Method, class_id=60, method_id=11):
    pass


class Consume(Method, class_id=60, method_id=20):
    """Starts a consumer; without a consumer tag the server generates one."""

    ticket: int = short()
    queue: str = shortstr()
    consumer_tag: str = shortstr()
    no_local: bool = bit()
    no_ack: bool = bit()
    exclusive: bool = bit()
    no_wait: bool = bit()
    arguments: Table = table()


class ConsumeOk(Method, class_id=60, method_id=21):
    consumer_tag: str = shortstr()


class Cancel(Method, class_id=60, method_id=30):
    """Ends a consumer; the server sends it when the queue is deleted (RabbitMQ extension)."""

    consumer_tag: str = shortstr()
    no_wait: bool = bit()


class CancelOk(Method, class_id=60, method_id=31):
    consumer_tag: str = shortstr()


class Publish(Method, class_id=60, method_id=40, content=True):
    ticket: int = short()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    mandatory: bool = bit()
    immediate: bool = bit()


class Return(Method, class_id=60, method_id=50, content=True):
    """A mandatory message that could not be routed."""

    reply_code: int = short()
    reply_text: str = shortstr()
    exchange: str = shortstr()
    routing_key: str = shortstr()


class Deliver(Method, class_id=60, method_id=60, content=True):
    consumer_tag: str = shortstr()
    delivery_tag: int = longlong()
    redelivered: bool = bit()
    exchange: str = shortstr()
    routing_key: str = shortstr()


class Get(Method, class_id=60, method_id=70):
    ticket: int = short()
    queue: str = shortstr()
    no_ack: bool = bit()


class GetOk(Method, class_id=60, method_id=71, content=True):
    """One message, and the number of messages left in the queue."""

    delivery_tag: int = longlong()
    redelivered: bool = bit()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    message_count: int = long()


class GetEmpty(Method, class_id=60, method_id=72):
    cluster_id: str = shortstr()


class Ack(Method, class_id=60, method_id=80):
    """From a client: messages were processed; from the server: messages are durable (confirms)."""

    delivery_tag: int = longlong()
    multiple: bool = bit()


class Reject(Method, class_id=60, method_id=90):
    delivery_tag: int = longlong()
    requeue: bool = bit(True)


class RecoverAsync(Method, class_id=60, method_id=100):
    """`Recover` without a reply; deprecated by the specification."""

    requeue: bool = bit()


class Recover(Method, class_id=60, method_id=110):
    """Redelivers all unacknowledged messages of the channel."""

    requeue: bool = bit()


class RecoverOk(Method, class_id=60, method_id=111):
    pass


class Nack(Method, class_id=60, method_id=120):
    """From a client: messages were rejected; from the server: publishing failed (RabbitMQ extension)."""

    delivery_tag: int = longlong()
    multiple: bool = bit()
    requeue: bool = bit(True)
