"""What all AMQP connections share, and what the channels of one share once its handshake is complete."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.model.broker_settings import BrokerSettings
from strom.queues.virtual_host import VirtualHost
from strom.wire.amqp.protocol import AmqpError, ReplyCode

if TYPE_CHECKING:
    from strom.server.amqp.channel import Channel
    from strom.server.amqp.outgoing import OutgoingFrames


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


@dataclass(frozen=True)
class Login:
    """What client and server have negotiated."""

    user: str
    vhost: VirtualHost
    frame_max: int
    channel_max: int
    heartbeat_s: int
    accepts_blocked: bool
    """Whether the client has the capability `connection.blocked`."""


@dataclass(frozen=True, eq=False)
class Session:
    """An open connection, for its channels; it owns the exclusive queues of the connection."""

    services: QueueServices
    login: Login
    out: "OutgoingFrames"
    channels: "dict[int, Channel]"
