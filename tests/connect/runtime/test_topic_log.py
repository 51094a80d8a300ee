"""The worker's own topics: JSON records that are followed, whatever else is in them."""

import pytest

from strom.client.topics import create_topic
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.topic_log import LogWriter, TopicLog
from strom.model.errors import UserError


@pytest.fixture
def clients(strom_server):
    return Clients(strom_server.bootstrap_servers)


def test_records_are_read_back_and_malformed_ones_skipped(clients, topic, caplog):
    found = []
    log = TopicLog(clients, topic, lambda key, value, offset: found.append((key, value, offset)))
    log.start(1, 1)
    writer = LogWriter(clients)
    writer.write(topic, [("a", {"n": 1})])
    malformed = clients.reporting_producer()
    malformed.produce(topic, b"{no json", b"b")
    assert malformed.flush(20) == 0
    writer.write(topic, [("a", None)])
    log.catch_up()
    log.stop()
    writer.close()
    assert found == [("a", {"n": 1}, 0), ("a", None, 2)]
    assert "offset 1" in caplog.text


def test_a_topic_that_would_lose_offsets_is_refused(clients, topic):
    create_topic(clients.admin(), topic, partitions=1)
    log = TopicLog(clients, topic, print)
    with pytest.raises(UserError, match="not compacted"):
        log.start(1, 1)


def test_a_recreated_topic_is_read_again_on_top_of_what_is_known(clients, topic, caplog):
    state = {}
    log = TopicLog(clients, topic, lambda key, value, _: state.update({key: value}))
    log.start(1, 1)
    writer = LogWriter(clients)
    writer.write(topic, [("a", {"n": 1}), ("b", {"n": 2})])
    log.catch_up()
    admin = clients.admin()
    admin.delete_topics([topic])[topic].result()
    create_topic(admin, topic, partitions=1, config={"cleanup.policy": "compact"})
    writer.write(topic, [("b", {"n": 3})])
    with log.changed:
        assert log.changed.wait_for(lambda: state["b"] == {"n": 3}, 30)
    log.stop()
    assert state == {"a": {"n": 1}, "b": {"n": 3}}
    assert "truncated or recreated" in caplog.text
