"""What of share fetches cannot be compared with a Kafka that others use at the same time."""

import time

from kio.schema.errors import ErrorCode

from strom.testing import LocalBroker
from tests.conformance.batches import batch
from tests.conformance.calls import create_topic, produce
from tests.conformance.members import find_coordinator
from tests.conformance.raw import RawClient
from tests.conformance.sharers import (
    REJECT,
    Acknowledged,
    Acquired,
    Sharer,
    partitions_of,
    set_group_configs,
)

FEW = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


def test_the_number_of_sessions_is_limited_and_a_refused_client_waits_a_little():
    with LocalBroker(settings={**FEW, "group.share.max.share.sessions": "1"}) as broker:
        address = broker.bootstrap_servers
        with RawClient(address) as client, Sharer(address, "g") as one, Sharer(address, "g") as two:
            topic = create_topic(client, "t")
            find_coordinator(client, "g")
            one.join(topic)
            two.join(topic)
            assert one.fetch((topic, 0)).error_code == ErrorCode.none
            began = time.monotonic()
            refused = two.fetch((topic, 0), max_wait=300)
            assert refused.error_code == ErrorCode.share_session_limit_reached
            assert time.monotonic() - began >= 0.25
            one.client.socket.close()
            deadline = time.monotonic() + 10
            while two.fetch((topic, 0), max_wait=50).error_code != ErrorCode.none:
                assert time.monotonic() < deadline


def test_rejected_records_are_found_in_the_dead_letter_topic():
    with LocalBroker(settings=FEW) as broker:
        address = broker.bootstrap_servers
        with RawClient(address) as client, Sharer(address, "g") as sharer:
            topic = create_topic(client, "t")
            find_coordinator(client, "g")
            configs = {
                "share.auto.offset.reset": "earliest",
                "errors.deadletterqueue.topic.name": "dlq.t",
            }
            assert set_group_configs(client, "g", configs) == ErrorCode.none
            sharer.join(topic)
            produce(client, topic, batch(b"poison"))
            assert sharer.acquire(topic) == [Acquired(0, 0, 1)]
            (one,) = partitions_of(sharer.acknowledge((topic, 0, Acknowledged(0, 0, [REJECT]))))
            assert one.error_code == ErrorCode.none
            names = [
                one.name
                for one in client.call(
                    "metadata",
                    12,
                    topics=None,
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=False,
                ).topics
            ]
            assert "dlq.t" in names
