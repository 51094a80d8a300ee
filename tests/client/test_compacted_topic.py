"""A compacted topic is read to its end and followed, whatever happens to the consumer or the topic."""

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from strom.client import compacted_topic
from strom.client.compacted_topic import (
    CatchUpTimeout,
    FollowerError,
    TopicFollower,
    ensure_compacted_topic,
)
from strom.client.connection_settings import ConnectionSettings
from strom.client.factories import KafkaClients
from strom.client.fenced_writer import Decision, FencedWriter, RecordTooLarge
from strom.model.errors import UserError

SECONDS = 20.0


class World:
    """A topic, and followers of it that are stopped in the end."""

    def __init__(self, servers, topic):
        self.clients = KafkaClients(ConnectionSettings(servers))
        self.admin = self.clients.admin()
        self.topic = topic
        self.producer = self.clients.reporting_producer()
        self.stops = []

    def ensure(self, partitions=1):
        return ensure_compacted_topic(
            self.admin, self.topic, partitions=partitions, timeout_s=SECONDS
        )

    def consumer(self, fixed):
        return self.clients.consumer(fixed=fixed)

    def write(self, *values, partition=0):
        for value in values:
            self.producer.produce(self.topic, value, b"k", partition=partition)
        assert self.producer.flush(SECONDS) == 0

    def follower(self, apply, *, committed=False, on_rewind=None, make_consumer=None):
        made = TopicFollower(
            self.admin,
            make_consumer or self.consumer,
            self.topic,
            apply,
            committed=committed,
            on_rewind=on_rewind or (lambda *_: pytest.fail("nothing was rewound")),
        )
        self.stops.append(made.stop)
        return made

    def values_of(self, partitions=1, **options):
        """The values that a started follower has applied, and the follower."""
        values = []
        follower = self.follower(lambda message: values.append(message.value()), **options)
        follower.start(partitions, SECONDS)
        return values, follower

    def recreate(self):
        self.admin.delete_topics([self.topic])[self.topic].result()
        self.ensure()


@pytest.fixture
def world(strom_server, topic):
    made = World(strom_server.bootstrap_servers, topic)
    yield made
    for stop in made.stops:
        stop()


def test_what_is_there_is_read_and_what_follows_is_followed(world):
    assert world.ensure(partitions=2) == 2
    world.write(b"1", b"2")
    world.write(b"a", partition=1)
    values, follower = world.values_of(partitions=2)
    assert sorted(values) == [b"1", b"2", b"a"]
    world.write(b"3")
    follower.catch_up(SECONDS)
    assert values[-1] == b"3"


def test_a_topic_that_exists_keeps_its_partitions(world):
    world.ensure(partitions=3)
    assert world.ensure(partitions=1) == 3


def test_a_topic_that_deletes_records_is_refused(world):
    world.admin.create_topics([NewTopic(world.topic, 1)])[world.topic].result()
    with pytest.raises(UserError, match=r"not compacted: its cleanup\.policy is delete"):
        world.ensure()


def test_a_user_who_may_not_describe_topics_may_use_them(world, monkeypatch, caplog):
    world.ensure()

    def deny(*_):
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr(compacted_topic, "topic_config", deny)
    assert world.ensure() == 1
    assert "Not authorized" in caplog.text


def test_a_wrong_property_is_reported_at_the_start(world):
    world.ensure()
    follower = world.follower(print, make_consumer=lambda _: world.consumer({"no.such": "x"}))
    with pytest.raises(KafkaException, match=r"no\.such"):
        follower.start(1, SECONDS)


def test_a_consumer_that_fails_is_replaced_where_it_was(world):
    """No record is lost, none is applied twice."""
    world.ensure()
    made = []

    class Failing:
        def __init__(self, real):
            self._real = real
            self.fails, self.failed = threading.Event(), threading.Event()

        def poll(self, seconds):
            if self.fails.is_set():
                self.failed.set()
                raise KafkaException(KafkaError(KafkaError._FATAL))
            return self._real.poll(seconds)

        def __getattr__(self, name):
            return getattr(self._real, name)

    def make_consumer(fixed):
        made.append(Failing(world.consumer(fixed)))
        return made[-1]

    world.write(b"1", b"2")
    values, follower = world.values_of(make_consumer=make_consumer)
    made[0].fails.set()
    assert made[0].failed.wait(SECONDS)
    world.write(b"3")
    follower.catch_up(SECONDS)
    assert (values, len(made)) == ([b"1", b"2", b"3"], 2)


def test_a_record_that_cannot_be_applied_ends_the_following_with_its_reason(world):
    world.ensure()

    def refuse(message):
        raise ValueError("this record is wrong")

    follower = world.follower(refuse)
    follower.start(1, SECONDS)
    world.write(b"1")
    with pytest.raises(FollowerError, match="this record is wrong"):
        follower.catch_up(SECONDS)
    assert isinstance(follower.failure, ValueError)


def test_open_transactions_are_waited_for_only_when_asked(world):
    world.ensure()
    producer = world.clients.transactional_producer(fixed={"transactional.id": world.topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(world.topic, b"in a transaction", b"k")
    producer.flush(SECONDS)
    values, follower = world.values_of(committed=True)
    follower.catch_up(SECONDS)
    assert values == []
    with pytest.raises(CatchUpTimeout):
        follower.catch_up(0.3, past_open_transactions=True)
    producer.commit_transaction()
    follower.catch_up(SECONDS, past_open_transactions=True)
    assert values == [b"in a transaction"]


def test_a_recreated_topic_is_noticed_and_read_from_its_start(world):
    world.ensure()
    world.write(b"1", b"2", b"3")
    rewound = []
    values, follower = world.values_of(on_rewind=lambda *place: rewound.append(place))
    world.recreate()
    world.write(b"new")
    with follower.changed:
        assert follower.changed.wait_for(lambda: values[-1] == b"new", SECONDS)
    assert rewound == [(0, 3, 0)]
    assert values == [b"1", b"2", b"3", b"new"]


def test_a_recreated_topic_that_has_grown_beyond_the_position_is_noticed_too(world):
    """Nothing is read while it happens, as by a program that was suspended."""
    world.ensure()
    world.write(b"1", b"2")
    fails, goes_on, failed = threading.Event(), threading.Event(), threading.Event()
    made: list[Any] = []
    rewound: list[Any] = []

    class Suspended:
        def __init__(self, real):
            self._real = real

        def poll(self, seconds):
            if fails.is_set() and not goes_on.is_set():
                raise KafkaException(KafkaError(KafkaError._FATAL))
            return self._real.poll(seconds)

        def __getattr__(self, name):
            return getattr(self._real, name)

    def make_consumer(fixed):
        if made:
            failed.set()
            assert goes_on.wait(SECONDS)
        made.append(Suspended(world.consumer(fixed)))
        return made[-1]

    values, follower = world.values_of(
        make_consumer=make_consumer, on_rewind=lambda *place: rewound.append(place)
    )
    fails.set()
    assert failed.wait(SECONDS)
    world.recreate()
    world.write(b"a", b"b", b"c")
    goes_on.set()
    with follower.changed:  # the thread notices it before it reads
        assert follower.changed.wait_for(lambda: values[-1] == b"c", SECONDS)
    follower.catch_up(SECONDS)
    assert (rewound, values) == ([(0, 2, 0)], [b"1", b"2", b"a", b"b", b"c"])


def test_a_record_that_is_too_large_leaves_nothing_behind(world):
    world.ensure()
    values = []

    def apply(message):
        values.append(message.value())
        writer.note(message)

    follower = world.follower(apply)
    writer = FencedWriter(
        follower,
        lambda fixed: world.clients.transactional_producer(fixed=fixed),
        world.topic,
        SECONDS,
    )
    follower.start(1, SECONDS)
    huge = b"x" * 2_000_000
    with pytest.raises(RecordTooLarge):
        writer.write(lambda: Decision([(b"a", b"small"), (b"b", huge)], None), SECONDS)
    assert writer.write(lambda: Decision([(b"a", b"next")], "done"), SECONDS) == "done"
    assert [value for value in values if value != b"small"] == [b"next"]
