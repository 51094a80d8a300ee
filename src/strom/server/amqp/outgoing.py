"""Outgoing frames of a connection: collected until the end of the event loop's turn, sent in one write.

A client that does not read gets no more deliveries. Once its unread responses exceed a limit, its
requests are not read either.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from strom.broker.queues.turn import Flusher, TickBatcher
from strom.queues.message import Message
from strom.server.transport.client_transport import ClientTransport
from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.content import write_content
from strom.wire.amqp.protocol import HEARTBEAT
from strom.wire.amqp.schema import Method
from strom.wire.amqp.table import Buffer

if TYPE_CHECKING:
    from strom.server.amqp.channel import Channel

FRAMES_BYTES = 80
"""Approximate overhead of a delivery besides its body."""
MAX_GATHERED = 256 * 1024
"""Collected bytes at which deliveries stop for the rest of the turn."""
MAX_UNSENT = 4 * 1024 * 1024
"""Bytes of unread responses at which a client is not read any more."""
MAX_UNCONFIRMED = 20_000
"""Unconfirmed messages at which a client is not read until there are fewer."""


class OutgoingFrames:
    """Collected frames of one connection; `sender` is flushed at the end of a turn."""

    def __init__(
        self,
        transport: ClientTransport[Any],
        channels: "Mapping[int, Channel]",
        turn: TickBatcher,
        sender: Flusher,
    ) -> None:
        self.frames: list[Buffer] = []
        self.size = 0
        """The approximate number of bytes in `frames`."""
        self.can_deliver = True
        """Whether deliveries may be added."""
        self.unconfirmed = 0
        """The number of unconfirmed messages."""
        self.last_sent = 0.0
        self._transport = transport
        self._channels = channels
        self._turn = turn
        self._sender = sender
        self._flush_due = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_full(self) -> bool:
        """Whether unread responses or unconfirmed messages exceed their limit."""
        return self.unconfirmed >= MAX_UNCONFIRMED or self.size > MAX_UNSENT or self.is_unread

    @property
    def is_unread(self) -> bool:
        """Whether the client does not read, so that its responses exceed their limit."""
        transport = self._transport
        return transport.is_write_paused and (
            transport.unsent_bytes > MAX_UNSENT or transport.is_pool_exhausted
        )

    def send(self, channel: int, method: Method) -> None:
        frame = method_frame(channel, method)
        self.frames.append(frame)
        self.size += len(frame)
        self.flush_soon()

    def send_content(self, channel: int, method: Method, message: Message, frame_max: int) -> None:
        """Send a method with a message as its content."""
        self.frames.append(method_frame(channel, method))
        write_content(self.frames, channel, message.properties, message.body, frame_max)
        self.added(len(message.body) + FRAMES_BYTES)

    def send_heartbeat(self) -> None:
        self.frames.append(HEARTBEAT)
        self.flush_soon()

    def added(self, size: int) -> None:
        """Account for bytes that were added to `frames`."""
        self.size += size
        if not self._flush_due:
            self.flush_soon()
        if self.size > MAX_GATHERED and self.can_deliver:
            self.update()

    def flush_soon(self) -> None:
        """Flush the sender at the end of this turn."""
        if not self._flush_due:
            self._flush_due = True
            self._turn.send_later(self._sender)

    def flush(self) -> bool:
        """Send the collected frames; True if reading of the client may resume because of it."""
        self._flush_due = False
        was_full = self.size > MAX_UNSENT or self.unconfirmed >= MAX_UNCONFIRMED
        for channel in self._channels.values():
            if channel.publisher.has_confirms:
                self.unconfirmed -= channel.publisher.write_confirms()
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
        """Recompute whether deliveries may be added, and have channels stop or resume theirs."""
        can_deliver = not self._transport.is_write_paused and self.size <= MAX_GATHERED
        if can_deliver != self.can_deliver:
            self.can_deliver = can_deliver
            for channel in tuple(self._channels.values()):
                channel.update()
