import pytest

from strom.model.errors import ApiError, ErrorCode
from strom.model.topics import TopicPartition, check_topic_name, collision_key


@pytest.mark.parametrize("name", ["clicks", "a.b_c-D9", "x" * 249, "__consumer_offsets"])
def test_legal_names_pass(name):
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ümlaut", "a/b", "a\x00"])
def test_illegal_names_are_refused_with_a_reason(name):
    with pytest.raises(ApiError) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_differ_in_dots_and_underscores_collide():
    assert collision_key("a.b") == collision_key("a_b")
    assert str(TopicPartition("clicks", 3)) == "clicks-3"
