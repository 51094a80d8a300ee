"""Publisher confirms (RabbitMQ extension)."""

from strom.wire.amqp.schema import Method, bit


class Select(Method, class_id=85, method_id=10):
    no_wait: bool = bit()


class SelectOk(Method, class_id=85, method_id=11):
    pass
