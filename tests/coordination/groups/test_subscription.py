"""What a coordinator understands of a consumer's subscription."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.subscription import subscribed_topics

topics = st.sets(st.text("abc._-", min_size=1, max_size=10), max_size=5)


def written(names: set[str], rest: bytes) -> bytes:
    parts = [struct.pack(">h", len(name)) + name.encode() for name in names]
    return struct.pack(">hi", 1, len(names)) + b"".join(parts) + rest


@given(names=topics, rest=st.binary(max_size=20))
def test_the_topics_are_read_and_the_rest_is_left_alone(names, rest):
    assert subscribed_topics(written(names, rest)) == names


@given(names=topics.filter(bool), cut=st.integers(0, 100))
def test_half_a_subscription_makes_no_sense(names, cut):
    whole = written(names, b"")
    assert subscribed_topics(whole[: min(cut, len(whole) - 1)]) is None


@given(noise=st.binary(max_size=40))
def test_noise_is_no_trouble(noise):
    subscribed_topics(noise)


def test_a_length_below_zero_makes_no_sense():
    assert subscribed_topics(struct.pack(">hih", 0, 1, -1)) is None
