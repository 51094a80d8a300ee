"""What the channels of one connection share once its handshake is complete."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.queues.virtual_host import VirtualHost
from strom.server.amqp.context import QueueServices

if TYPE_CHECKING:
    from strom.server.amqp.channel import Channel
    from strom.server.amqp.outgoing import OutgoingFrames


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
