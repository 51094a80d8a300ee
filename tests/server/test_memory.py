from strom.server.memory import MemoryPool


def test_bytes_are_granted_until_there_are_none():
    pool = MemoryPool(100)
    assert pool.take(60)
    assert not pool.take(41)
    assert pool.take(40)
    assert pool.free == 0


def test_waiting_requests_are_served_in_order_and_none_overtakes():
    pool = MemoryPool(100)
    served = []
    assert pool.take(100)
    pool.wait(80, lambda: served.append("first"))
    pool.wait(10, lambda: served.append("second"))
    pool.give(50)
    assert served == [], "the first needs more, and the second may not overtake it"
    assert not pool.take(1)
    pool.give(50)
    assert served == ["first", "second"]
    assert pool.in_use == 90


def test_a_waiter_that_left_is_forgotten():
    pool = MemoryPool(10)
    served = []
    pool.take(10)

    def callback() -> None:
        served.append(1)

    pool.wait(5, callback)
    pool.forget(callback)
    pool.give(10)
    assert served == []
    assert pool.in_use == 0


def test_a_wish_larger_than_the_pool_is_cut_to_it():
    pool = MemoryPool(10)
    served = []
    pool.take(1)
    pool.wait(1000, lambda: served.append(1))
    pool.give(1)
    assert served == [1]
