"""Leader epochs: Kafka's answers to OffsetForLeaderEpoch."""

import pytest

from strom.model.errors import CorruptData
from strom.storage.epochs import EpochStart, LeaderEpochs


def epochs(*starts) -> LeaderEpochs:
    return LeaderEpochs([EpochStart(*start) for start in starts])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),  # older than anything known: it ended where the oldest began
        (2, (2, 30)),
        (3, (2, 30)),  # unknown between two: the one before it
        (5, (5, 70)),
        (7, (7, 100)),  # the latest ends where the log does
        (8, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_begins(asked, answer):
    assert epochs((2, 10), (5, 30), (7, 70)).end_of(asked, 100) == answer


def test_nothing_is_known_of_an_empty_log():
    assert LeaderEpochs().end_of(0, 0) == (-1, -1)
    assert LeaderEpochs().epoch_at(5) == -1


def test_only_newer_epochs_are_taken_and_unused_ones_replaced():
    known = LeaderEpochs()
    known.assign(1, 0)
    known.assign(1, 5)
    known.assign(0, 6)
    known.assign(3, 10)
    known.assign(4, 10)
    assert known.starts == [(1, 0), (4, 10)]
    assert known.epoch_at(9) == 1
    assert known.epoch_at(10) == 4
    assert known.latest == 4


def test_a_cut_forgets_what_began_behind_it():
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_from(10)
    assert known.starts == [(1, 0)]
    assert known.latest == 1


def test_damage_is_noticed():
    data = epochs((1, 0), (2, 10)).encode()
    assert LeaderEpochs.decode(data).starts == [(1, 0), (2, 10)]
    for length in range(len(data)):
        with pytest.raises(CorruptData):
            LeaderEpochs.decode(data[:length])
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptData):
            LeaderEpochs.decode(bytes(damaged))
