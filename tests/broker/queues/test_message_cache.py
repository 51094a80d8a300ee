"""Messages in memory: within a queue's share."""

from strom.broker.queues.message_cache import (
    ALL_IN_MEMORY,
    LEAST_IN_MEMORY,
    MOST_IN_MEMORY,
    OVERHEAD,
    MemoryShare,
    MessageCache,
)
from tests.queues.memory_store import make_message

SIZE = 100 + OVERHEAD


def message():
    return make_message(bytes(100))


def make_cache(messages: int) -> MessageCache:
    memory = MemoryShare()
    memory.each = messages * SIZE
    return MessageCache(memory)


def test_queues_share_the_memory_within_limits():
    memory = MemoryShare()
    shares = []
    for queues in (0, 1, 16, 10_000):
        memory.divide(queues)
        shares.append(memory.each)
    assert shares == [MOST_IN_MEMORY, MOST_IN_MEMORY, ALL_IN_MEMORY // 16, LEAST_IN_MEMORY]


def test_no_more_is_kept_than_fits():
    cache = make_cache(2)
    for position in range(3):
        cache.add(position, message(), is_lent=False)
    assert sorted(cache) == [0, 1]
    assert cache.size == 2 * SIZE
    cache.drop(0)
    cache.drop(0)
    assert (len(cache), cache.size) == (1, SIZE)


def test_what_was_read_takes_the_place_of_what_is_lent_and_then_of_what_came_last():
    cache = make_cache(4)
    for position in range(4):
        cache.add(position, message(), is_lent=position == 0)
    cache.lend(1)
    cache.lend(17)
    cache.add_read({9: message()})
    assert sorted(cache) == [2, 3, 9]
    cache.add_read({10: message(), 11: message(), 12: message()})
    assert sorted(cache) == [2, 10, 11, 12]
    assert cache.size == 4 * SIZE


def test_more_than_the_whole_share_is_not_kept():
    cache = make_cache(2)
    cache.add(0, message(), is_lent=False)
    cache.add_read({position: message() for position in range(1, 4)})
    assert list(cache) == [0]


def test_what_is_lent_is_found_until_it_is_evicted():
    cache = make_cache(2)
    lent = message()
    cache.add(5, lent, is_lent=False)
    cache.lend(5)
    assert 5 in cache
    assert cache.get(5) is lent
    cache.evict_lent()
    assert cache.get(5) is None
    assert cache.size == 0
