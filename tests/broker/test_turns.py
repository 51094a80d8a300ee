import asyncio

import pytest

from strom.broker import turns
from strom.broker.turns import in_turns


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
