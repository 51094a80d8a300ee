from collections.abc import Callable

from strom.server.memory import LARGEST_SHARE, MemoryPool, NetworkMemory


class Waiting:
    """Connections that wait, and the order in which they are served."""

    def __init__(self, pool: MemoryPool) -> None:
        self.pool = pool
        self.served: list[str] = []
        self.callbacks: dict[str, Callable[[], None]] = {}

    def wait(self, size: int, host: str, name: str) -> None:
        self.callbacks[name] = lambda: self.served.append(name)
        self.pool.wait(size, host, self.callbacks[name])


def test_bytes_are_granted_until_there_are_none():
    pool = MemoryPool(100)
    assert pool.take(60, "a")
    assert not pool.take(41, "b")
    assert pool.take(40, "b")
    assert pool.free == 0


def test_waiting_requests_are_served_in_order_and_none_overtakes():
    pool = MemoryPool(100)
    waiting = Waiting(pool)
    assert pool.take(50, "a")
    assert pool.take(50, "b")
    waiting.wait(80, "c", "first")
    waiting.wait(10, "c", "second")
    pool.give(50, "a")
    assert waiting.served == [], "the first needs more, and the second may not overtake it"
    assert not pool.take(1, "d")
    pool.give(50, "b")
    assert waiting.served == ["first"]
    assert not pool.take(1, "c"), "the second waits for the share of its address"
    assert pool.take(1, "d")
    pool.give(80, "c")
    assert waiting.served == ["first", "second"]
    assert pool.in_use == 11


def test_addresses_take_turns():
    pool = MemoryPool(100)
    waiting = Waiting(pool)
    pool.force_take(100, "x")
    for number in range(3):
        waiting.wait(10, "a", f"a{number}")
    waiting.wait(10, "b", "b0")
    pool.give(20, "x")
    assert waiting.served == ["a0", "b0"]
    pool.give(80, "x")
    assert waiting.served == ["a0", "b0", "a1", "a2"]


def test_one_address_gets_its_share_and_no_more():
    pool = MemoryPool(100)
    waiting = Waiting(pool)
    share = int(100 * LARGEST_SHARE)
    assert pool.take(share, "a")
    assert not pool.take(1, "a")
    waiting.wait(1, "a", "a")
    assert pool.take(100 - share, "b"), "whoever waits for its own share blocks no other address"
    pool.give(100 - share, "b")
    assert waiting.served == []
    pool.give(share, "a")
    assert waiting.served == ["a"]


def test_a_request_that_exceeds_the_share_may_be_alone():
    pool = MemoryPool(100)
    assert pool.take(100, "a")
    pool.give(100, "a")
    waiting = Waiting(pool)
    pool.force_take(10, "b")
    assert not pool.take(100, "a")
    waiting.wait(100, "a", "a")
    pool.give(10, "b")
    assert waiting.served == ["a"]


def test_what_is_wanted_from_an_address_depends_on_what_the_others_wait_for():
    pool = MemoryPool(100)
    waiting = Waiting(pool)
    pool.take(70, "a")
    waiting.wait(10, "a", "a")
    assert (pool.is_full, pool.wanted_from("a"), pool.wanted_from("b")) == (False, 10, 0)
    pool.take(30, "b")
    waiting.wait(20, "c", "c")
    assert (pool.is_full, pool.wanted_from("a"), pool.wanted_from("b")) == (True, 30, 30)


def test_a_waiter_that_left_is_forgotten_and_blocks_no_other():
    pool = MemoryPool(100)
    waiting = Waiting(pool)
    pool.take(70, "x")
    waiting.wait(40, "a", "a")
    waiting.wait(10, "b", "b")
    pool.forget("a", waiting.callbacks["a"])
    assert waiting.served == ["b"]
    pool.forget("a", waiting.callbacks["a"])
    pool.give(10, "b")
    pool.give(70, "x")
    assert (pool.in_use, pool.is_wanted, waiting.served) == (0, False, ["b"])


def test_small_requests_large_ones_and_responses_do_not_take_each_others_memory():
    memory = NetworkMemory(1024)
    small, large = memory.pool_of(8), memory.pool_of(9)
    assert len({small, large, memory.responses}) == 3
    assert small.capacity + large.capacity + memory.responses.capacity == memory.capacity
    large.take(memory.largest_request, "a")
    assert not memory.is_wanted
    large.wait(1, "b", lambda: None)
    assert (memory.is_wanted, memory.in_use) == (True, 512)
    assert small.take(8, "b")
