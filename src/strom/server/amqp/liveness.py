"""Closes connections whose client does not log in, or sends nothing for two heartbeats."""

import asyncio
from typing import Any

from strom.server.amqp.outgoing import OutgoingFrames
from strom.server.transport.client_transport import ClientTransport
from strom.server.transport.drop_reason import DropReason


class Liveness:
    """The timer of one connection: first for the login, then for heartbeats in both directions."""

    def __init__(self, transport: ClientTransport[Any], out: OutgoingFrames) -> None:
        self._transport = transport
        self._out = out
        self._loop = asyncio.get_running_loop()
        self.received_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def await_login(self, seconds: float) -> None:
        """Close the connection unless heartbeats are started before then."""
        self._timer = self._loop.call_later(
            seconds, self._transport.drop, DropReason.LOGIN_TIMEOUT, "login timed out"
        )

    def start_heartbeats(self, interval_s: int) -> None:
        """Replace the login timeout by heartbeats; an interval of 0 disables them."""
        self.stop()
        if interval_s:
            self._timer = self._loop.call_later(interval_s / 2, self._beat, interval_s)

    def stop(self) -> None:
        """Nothing happens any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self, interval_s: int) -> None:
        now = self._loop.time()
        # While the socket is not read, the client may have sent heartbeats.
        if now - self.received_at > 2 * interval_s and self._transport.is_reading:
            self._transport.drop(DropReason.MISSED_HEARTBEATS, "missed two heartbeats")
            return
        if now - self._out.last_sent >= interval_s / 2:
            self._out.send_heartbeat()
        self._timer = self._loop.call_later(interval_s / 2, self._beat, interval_s)
