import asyncio
from functools import partial

import pytest

from strom.broker import turns
from strom.broker.turns import TurnQueue, in_turns


@pytest.mark.parametrize(("slice_s", "expected"), [(0, [1, 2, 3, 4, 5]), (60, [5])])
def test_other_work_is_done_when_a_slice_is_over(monkeypatch, slice_s, expected):
    monkeypatch.setattr(turns, "SLICE_SECONDS", slice_s)
    done: list[int] = []

    async def test():
        work = asyncio.create_task(in_turns(map(done.append, range(5))))
        seen = []
        while not work.done():
            await asyncio.sleep(0)
            seen.append(len(done))
        return sorted(set(seen))

    assert asyncio.run(test()) == expected


async def done_after_each_turn(done: list[object], turns: int) -> list[int]:
    counts = [len(done)]
    for _ in range(turns):
        await asyncio.sleep(0)
        counts.append(len(done))
    return counts


def test_works_of_many_origins_share_the_turns_of_a_queue():
    done: list[object] = []

    async def test():
        queue = TurnQueue(asyncio.get_running_loop(), 2)
        for number in range(5):
            queue.do(partial(done.append, number))
        return await done_after_each_turn(done, 4)

    assert asyncio.run(test()) == [2, 4, 5, 5, 5]
    assert done == [0, 1, 2, 3, 4]


def test_work_that_adds_work_leaves_it_to_the_next_turn():
    done: list[object] = []

    async def test():
        queue = TurnQueue(asyncio.get_running_loop(), 1)

        def again():
            done.append(len(done))
            if len(done) < 3:
                queue.do(again)

        queue.do(again)
        return await done_after_each_turn(done, 4)

    assert asyncio.run(test()) == [1, 2, 3, 3, 3]


def test_work_that_fails_does_not_keep_the_rest_waiting():
    done: list[object] = []

    async def test():
        queue = TurnQueue(asyncio.get_running_loop(), 2)
        with pytest.raises(ValueError, match="not in list"):
            queue.do(partial(done.remove, "nothing"))
        for number in range(3):
            queue.do(partial(done.append, number))
        return await done_after_each_turn(done, 3)

    assert asyncio.run(test()) == [1, 3, 3, 3]


def test_a_stopped_queue_does_what_waited_no_more():
    done: list[object] = []

    async def test():
        queue = TurnQueue(asyncio.get_running_loop(), 1)
        queue.do(lambda: done.append(1))
        queue.do(lambda: done.append(2))
        queue.stop()
        return await done_after_each_turn(done, 3)

    assert asyncio.run(test()) == [1, 1, 1, 1]
