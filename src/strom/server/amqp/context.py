"""What every connection of queue clients needs."""

from dataclasses import dataclass

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import MessageQueues
from strom.model.broker_settings import BrokerSettings


@dataclass(frozen=True)
class QueueServices:
    """The broker's parts behind the AMQP front."""

    queues: MessageQueues
    declarations: Declarations
    settings: BrokerSettings
    node: str
