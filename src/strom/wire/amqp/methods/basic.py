"""Publishing, consuming and acknowledging messages."""

from strom.model.tables import Table
from strom.wire.amqp.schema import Method, bit, long, longlong, short, shortstr, table


class Qos(Method, class_id=60, method_id=10):
    """How much may be delivered without being acknowledged."""

    prefetch_size: int = long()
    prefetch_count: int = short()
    global_: bool = bit()
    """In RabbitMQ: for all consumers of the channel together, rather than for each new one."""


class QosOk(Method, class_id=60, method_id=11):
    """So be it."""


class Consume(Method, class_id=60, method_id=20):
    """Have messages of a queue delivered. No tag: the server makes one up."""

    ticket: int = short()
    queue: str = shortstr()
    consumer_tag: str = shortstr()
    no_local: bool = bit()
    no_ack: bool = bit()
    exclusive: bool = bit()
    no_wait: bool = bit()
    arguments: Table = table()


class ConsumeOk(Method, class_id=60, method_id=21):
    """They will be."""

    consumer_tag: str = shortstr()


class Cancel(Method, class_id=60, method_id=30):
    """End a consumer; the server sends it too, when the queue is gone (RabbitMQ's extension)."""

    consumer_tag: str = shortstr()
    no_wait: bool = bit()


class CancelOk(Method, class_id=60, method_id=31):
    """It is ended."""

    consumer_tag: str = shortstr()


class Publish(Method, class_id=60, method_id=40, content=True):
    """A message for an exchange."""

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
    """A message for a consumer."""

    consumer_tag: str = shortstr()
    delivery_tag: int = longlong()
    redelivered: bool = bit()
    exchange: str = shortstr()
    routing_key: str = shortstr()


class Get(Method, class_id=60, method_id=70):
    """Take one message out of a queue."""

    ticket: int = short()
    queue: str = shortstr()
    no_ack: bool = bit()


class GetOk(Method, class_id=60, method_id=71, content=True):
    """Here it is, and so many are left."""

    delivery_tag: int = longlong()
    redelivered: bool = bit()
    exchange: str = shortstr()
    routing_key: str = shortstr()
    message_count: int = long()


class GetEmpty(Method, class_id=60, method_id=72):
    """There is none."""

    cluster_id: str = shortstr()


class Ack(Method, class_id=60, method_id=80):
    """Messages were dealt with; from the server: were published safely (RabbitMQ's extension)."""

    delivery_tag: int = longlong()
    multiple: bool = bit()


class Reject(Method, class_id=60, method_id=90):
    """A message was not dealt with."""

    delivery_tag: int = longlong()
    requeue: bool = bit(True)


class RecoverAsync(Method, class_id=60, method_id=100):
    """As `Recover`, without an answer; nobody should use it any more."""

    requeue: bool = bit()


class Recover(Method, class_id=60, method_id=110):
    """Deliver everything that is not acknowledged again."""

    requeue: bool = bit()


class RecoverOk(Method, class_id=60, method_id=111):
    """It will be."""


class Nack(Method, class_id=60, method_id=120):
    """Messages were not dealt with; from the server: were not published (RabbitMQ's extension)."""

    delivery_tag: int = longlong()
    multiple: bool = bit()
    requeue: bool = bit(True)


METHODS: tuple[type[Method], ...] = (
    Qos,
    QosOk,
    Consume,
    ConsumeOk,
    Cancel,
    CancelOk,
    Publish,
    Return,
    Deliver,
    Get,
    GetOk,
    GetEmpty,
    Ack,
    Reject,
    RecoverAsync,
    Recover,
    RecoverOk,
    Nack,
)
