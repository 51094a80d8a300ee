"""Names of the internal topics of queues."""

from hypothesis import given
from hypothesis import strategies as st

from strom.broker.queues.naming import topic_of
from strom.model.topics import check_topic_name, is_of_queues

NAMES = st.text(max_size=300)


@given(NAMES, NAMES, st.integers(0, 3))
def test_every_name_is_legal_and_a_queue_s(vhost, queue, attempt):
    name = topic_of(vhost, queue, attempt)
    check_topic_name(name)
    assert is_of_queues(name)


@given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 3)), unique=True, max_size=20))
def test_different_queues_have_different_topics(queues):
    names = {topic_of(*queue).replace("_", ".") for queue in queues}
    assert len(names) == len(queues)
