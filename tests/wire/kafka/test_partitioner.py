"""Kafka's hash of keys; the numbers are those of Kafka's own test of it."""

import pytest

from strom.wire.kafka.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_kafkas(key, hashed):
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_a_partition_is_never_negative():
    assert all(0 <= partition_of(str(number).encode(), 7) < 7 for number in range(500))
