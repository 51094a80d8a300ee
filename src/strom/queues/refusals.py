"""The usual reasons why a request of a queue client is refused."""

from strom.wire.amqp.protocol import AmqpError, ReplyCode


def not_found(kind: str, name: str, vhost: str) -> AmqpError:
    """There is no such queue or exchange."""
    return AmqpError(ReplyCode.NOT_FOUND, f"no {kind} '{name}' in vhost '{vhost}'")


def precondition_failed(text: str) -> AmqpError:
    """What is asked does not fit what is there."""
    return AmqpError(ReplyCode.PRECONDITION_FAILED, text)


def access_refused(text: str) -> AmqpError:
    """Nobody may do that."""
    return AmqpError(ReplyCode.ACCESS_REFUSED, text)
