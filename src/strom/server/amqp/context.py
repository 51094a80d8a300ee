"""What every connection of queue clients needs."""

from dataclasses import dataclass

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.model.broker_settings import BrokerSettings
from strom.wire.amqp.protocol import AmqpError, ReplyCode


class HalfReceived:
    """Bytes of messages that have not wholly arrived, over all connections."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    def add(self, size: int) -> None:
        """More of them, or fewer; RESOURCE_ERROR for whoever brings too many."""
        self._held += size
        if size > 0 and self._held > self._limit:
            raise AmqpError(ReplyCode.RESOURCE_ERROR, "too many large messages arrive at once")


@dataclass(frozen=True)
class QueueServices:
    """The broker's parts behind the AMQP front."""

    queues: QueueBroker
    declarations: Declarations
    settings: BrokerSettings
    node: str
    half_received: HalfReceived
