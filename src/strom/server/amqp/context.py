"""What all AMQP connections share."""

from dataclasses import dataclass

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.model.broker_settings import BrokerSettings
from strom.wire.amqp.protocol import AmqpError, ReplyCode


class IncompleteMessages:
    """Bytes of messages that are not completely received, over all connections."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    def add(self, size: int) -> None:
        """Add bytes, or release them (< 0); RESOURCE_ERROR if that exceeds the limit."""
        self._held += size
        if size > 0 and self._held > self._limit:
            raise AmqpError(ReplyCode.RESOURCE_ERROR, "too many large messages arrive at once")


@dataclass(frozen=True)
class QueueServices:
    """The parts of the broker that serve AMQP clients."""

    queues: QueueBroker
    declarations: Declarations
    settings: BrokerSettings
    node: str
    incomplete_messages: IncompleteMessages
