"""Slow turns of the event loop are counted."""

import asyncio

from strom.server.loop_watchdog import CHECK_SECONDS, LoopWatchdog


class Loop:
    """Keeps the timer that was set."""

    def call_later(self, seconds, callback):
        self.seconds, self.callback = seconds, callback
        return self

    def cancel(self):
        self.callback = None


def test_only_turns_that_take_too_long_are_counted_and_the_longest_is_kept(monkeypatch):
    loop, now = Loop(), [100.0]
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    watchdog = LoopWatchdog(lambda: now[0])
    watchdog.start()
    for late in (0.0, 0.04, 0.3, 0.1, 0.0):
        now[0] += CHECK_SECONDS + late
        loop.callback()
    slow_turns, longest = watchdog.reading()
    assert slow_turns == 2
    assert round(longest, 6) == 0.3
    watchdog.stop()
    assert loop.callback is None
