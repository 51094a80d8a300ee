"""What all AMQP connections share, and what the channels of one share once its handshake is complete."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.model.broker_settings import BrokerSettings
from strom.queues.virtual_host import VirtualHost
from strom.server.memory import NetworkMemory
from strom.server.transport.reservation import Reservation
from strom.wire.amqp.protocol import AmqpError, ReplyCode

if TYPE_CHECKING:
    from strom.server.amqp.channel import Channel
    from strom.server.amqp.outgoing import OutgoingFrames


class IncompleteMessages:
    """Memory for the messages of one connection that are not completely received."""

    def __init__(self, reservation: Reservation, largest: int) -> None:
        self._reservation = reservation
        self._largest = largest

    def expect(self, size: int) -> int:
        """Reserve memory for a body, and return how much. If it is not free, the connection has to wait.

        A message that is larger than all memory gets all of it. A connection that already holds memory
        must not wait, because others could wait for it: it gets RESOURCE_ERROR. Clients send one message
        after the other, so only hostile ones get there.
        """
        reservation = self._reservation
        if reservation.size:
            if not reservation.take(reservation.size + size):
                text = "too many large messages arrive at once"
                raise AmqpError(ReplyCode.RESOURCE_ERROR, text)
            return size
        size = min(size, self._largest)
        if not reservation.take(size):
            reservation.wait(size)
        return size

    def release(self, size: int) -> None:
        """Give back the memory of a body that is complete, or will not be."""
        if self._reservation.is_waiting:
            self._reservation.release()
        elif size:
            self._reservation.reduce(size)


@dataclass(frozen=True)
class QueueServices:
    """The parts of the broker that serve AMQP clients."""

    queues: QueueBroker
    declarations: Declarations
    settings: BrokerSettings
    node: str
    memory: NetworkMemory


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
    incomplete_messages: IncompleteMessages
