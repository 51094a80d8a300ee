"""The end of a turn: everything in its order, and retries when the disk refuses."""

import asyncio

from strom.broker.queues import turn as turn_module
from strom.broker.queues.turn import PublisherBlock, TickBatcher
from strom.model.errors import DirectoryOffline
from strom.model.retries import RetryPolicy


class Part:
    """Has something to write and to send, and notes when it does."""

    def __init__(self, name: str, done: list[str], error: Exception | None = None) -> None:
        self.name = name
        self.error = error
        self._done = done

    def write_messages(self) -> None:
        if self.error is not None:
            raise self.error
        self._done.append(f"{self.name} messages")

    def write_progress(self) -> None:
        self._done.append(f"{self.name} progress")

    def flush(self) -> None:
        self._done.append(f"{self.name} sent")


def run(test):
    asyncio.run(asyncio.wait_for(test, 10))


def test_dead_letters_then_messages_then_progress_then_deliveries():
    async def test():
        done: list[str] = []
        turn = TickBatcher(PublisherBlock(), lambda error: None)
        one, two = Part("one", done), Part("two", done)
        turn.send_later(one)
        turn.write_later(one)
        turn.write_later(two)
        turn.write_later(one)
        turn.send_first(two)
        assert done == []
        await asyncio.sleep(0)
        assert done == [
            "two sent",
            "one messages",
            "two messages",
            "one progress",
            "two progress",
            "one sent",
        ]
        await asyncio.sleep(0)
        assert len(done) == 6

    run(test())


def test_an_offline_directory_is_reported_and_senders_are_flushed_all_the_same():
    async def test():
        done: list[str] = []
        offline: list[Exception] = []
        turn = TickBatcher(PublisherBlock(), offline.append)
        error = DirectoryOffline("gone")
        turn.write_later(Part("bad", done, error))
        turn.send_later(Part("one", done))
        turn.end()
        assert offline == [error]
        assert done == ["one sent"]

    run(test())


def test_publishers_are_held_back_until_a_retry_succeeds(monkeypatch):
    monkeypatch.setattr(turn_module, "RETRY", RetryPolicy(first_s=0.001))

    async def test():
        done: list[str] = []
        block = PublisherBlock()
        reasons: list[str | None] = []
        block.listeners.append(reasons.append)
        turn = TickBatcher(block, lambda error: None)

        class Refused(Part):
            left = 2

            def write_messages(self) -> None:
                if self.left:
                    self.left -= 1
                    turn.failed(self, OSError("full"))

        turn.failed(Refused("full", done), OSError("full"))
        turn.failed(Part("other", done), OSError("full"))
        assert block.reason == "low on disk"
        while block.reason is not None:
            await asyncio.sleep(0.001)
        assert reasons == ["low on disk"] * 3 + [None]
        assert "other messages" in done

    run(test())
