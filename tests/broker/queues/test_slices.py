"""Long work is done one slice for each turn of the event loop, short work at once."""

import asyncio

from strom.broker.queues.slices import Slices


class Job:
    """So many slices of work."""

    def __init__(self, name: str, slices: int, done: list[str]) -> None:
        self.name = name
        self.left = slices
        self._done = done

    def step(self):
        self._done.append(self.name)
        self.left -= 1
        return self.left > 0


def run(test):
    asyncio.run(asyncio.wait_for(test, 10))


def test_long_works_take_turns_and_others_are_served_between_slices():
    async def test():
        slices = Slices(asyncio.get_running_loop())
        done: list[str] = []
        assert not slices.run(Job("a", 3, done).step, 3)
        assert not slices.run(Job("b", 2, done).step, 2)
        assert done == []
        while len(done) < 5:
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) <= before + 1
        assert done == ["a", "b", "a", "b", "a"]

    run(test())


def test_short_work_is_done_at_once_up_to_a_slice_for_each_turn():
    async def test():
        slices = Slices(asyncio.get_running_loop())
        done: list[str] = []
        ended = [slices.run(Job(name, 1, done).step, 0.4) for name in "abcd"]
        assert ended == [True, True, False, False]
        assert done == ["a", "b"]
        await asyncio.sleep(0)
        assert slices.run(Job("e", 1, done).step, 0.4)
        while len(done) < 5:
            await asyncio.sleep(0)
        assert done == ["a", "b", "c", "e", "d"]

    run(test())


def test_a_work_that_fails_does_not_stop_the_others():
    async def test():
        loop = asyncio.get_running_loop()
        failures = []
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        slices = Slices(loop)
        done: list[str] = []
        error = RuntimeError("broken")

        def fail():
            raise error

        slices.add(fail)
        slices.add(Job("a", 1, done).step)
        while not done:
            await asyncio.sleep(0)
        assert failures == [error]

    run(test())


def test_a_stop_finishes_what_has_begun():
    async def test():
        slices = Slices(asyncio.get_running_loop())
        done: list[str] = []
        slices.add(Job("a", 3, done).step)
        slices.add(Job("b", 1, done).step)
        await slices.finish()
        assert done == ["a", "b", "a", "a"]

    run(test())
