"""What a connection sends: frames gather until the end of the event loop's turn and go out in one write.

A client that does not read gets no more deliveries. Once it has left too many bytes of responses unread,
it is not read either.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from strom.broker.queues.turn import Sender, TickBatcher
from strom.server.transport.client_transport import ClientTransport
from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.protocol import HEARTBEAT
from strom.wire.amqp.schema import Method
from strom.wire.amqp.table import Buffer

if TYPE_CHECKING:
    from strom.server.amqp.channel import Channel

MAX_GATHERED = 256 * 1024
"""So many bytes are gathered before deliveries stop for the rest of the turn."""
MAX_UNSENT = 4 * 1024 * 1024
"""A client that has not read so many bytes of responses is not read either."""
MAX_UNCONFIRMED = 20_000
"""A client with so many messages that wait for the disk is not read until there are fewer."""


class OutgoingFrames:
    """Frames of one connection on their way to the transport. `sender` is flushed when a turn ends."""

    def __init__(
        self,
        transport: ClientTransport[Any],
        channels: "Mapping[int, Channel]",
        turn: TickBatcher,
        sender: Sender,
    ) -> None:
        self.frames: list[Buffer] = []
        self.size = 0
        """About how many bytes `frames` has."""
        self.can_deliver = True
        """Whether deliveries may be added."""
        self.unconfirmed = 0
        """Published messages whose publishers wait for a confirm."""
        self.last_sent = 0.0
        self._transport = transport
        self._channels = channels
        self._turn = turn
        self._sender = sender
        self._flush_due = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_full(self) -> bool:
        """Whether the client causes more responses than it reads, or messages than the disk accepts."""
        transport = self._transport
        if self.unconfirmed >= MAX_UNCONFIRMED or self.size > MAX_UNSENT:
            return True
        return transport.is_write_paused and (
            transport.unsent_bytes > MAX_UNSENT or transport.is_pool_exhausted
        )

    def send(self, channel: int, method: Method) -> None:
        frame = method_frame(channel, method)
        self.frames.append(frame)
        self.size += len(frame)
        self.flush_soon()

    def send_heartbeat(self) -> None:
        self.frames.append(HEARTBEAT)
        self.flush_soon()

    def added(self, size: int) -> None:
        """So many bytes were added to `frames`."""
        self.size += size
        if not self._flush_due:
            self.flush_soon()
        if self.size > MAX_GATHERED and self.can_deliver:
            self.update()

    def flush_soon(self) -> None:
        """Have the sender flushed at the end of this turn."""
        if not self._flush_due:
            self._flush_due = True
            self._turn.send_later(self._sender)

    def flush(self) -> bool:
        """Send what has gathered; whether the client was not read because of it, and may be now."""
        self._flush_due = False
        was_full = self.size > MAX_UNSENT or self.unconfirmed >= MAX_UNCONFIRMED
        for channel in self._channels.values():
            if channel.has_confirms:
                self.unconfirmed -= channel.write_confirms()
        frames, self.frames = self.frames, []
        self.size = 0
        if frames and self._transport.is_open:
            self.last_sent = self._loop.time()
            if len(frames) == 1:
                self._transport.write(cast("bytes", frames[0]))
            else:
                self._transport.write(b"".join(frames))
            if not self.can_deliver:
                self.update()
        return was_full and self.unconfirmed < MAX_UNCONFIRMED

    def update(self) -> None:
        """See whether deliveries may be added, and have channels stop or resume theirs."""
        can_deliver = not self._transport.is_write_paused and self.size <= MAX_GATHERED
        if can_deliver != self.can_deliver:
            self.can_deliver = can_deliver
            for channel in tuple(self._channels.values()):
                channel.update()
