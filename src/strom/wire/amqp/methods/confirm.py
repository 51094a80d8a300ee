"""Publisher confirms (RabbitMQ's extension)."""

from strom.wire.amqp.schema import Method, bit


class Select(Method, class_id=85, method_id=10):
    """From now on, confirm what is published on the channel."""

    no_wait: bool = bit()


class SelectOk(Method, class_id=85, method_id=11):
    """It will be confirmed."""


METHODS: tuple[type[Method], ...] = (Select, SelectOk)
