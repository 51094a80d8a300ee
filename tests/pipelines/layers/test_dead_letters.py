"""Dead letters: truncated to what fits, under back-pressure, and confirmed one by one."""

import json
import time

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from strom.pipelines import Stream, View, count
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.layers import speed
from strom.pipelines.layers.dead_letters import FRAMING, DeadLetter, DeadLettersRefused, fitted
from strom.pipelines.spark import parsing
from strom.pipelines.spark.parsing import malformed_rows
from tests.pipelines.world import World, fresh_topic

LIMIT = 10_000


@pytest.fixture
def world(spark, kafka_servers, tmp_path):
    stream = Stream(fresh_topic(), schema="n INT", partitions=2)
    world = World(
        spark,
        kafka_servers,
        tmp_path,
        stream,
        [View(reads=stream, measures={"rows": count()}, name="all")],
    )
    yield world
    world.close()


def letters_in(servers, topic):
    """All records of a topic of one partition."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "t", "fetch.message.max.bytes": 4 << 20}
    )
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while len(found) < end:
        found += consumer.consume(end - len(found), timeout=1)
    consumer.close()
    return found


def headers_of(message):
    return {name: value.decode() for name, value in message.headers()}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", b""),
        (b"k", b"x" * (LIMIT - FRAMING - 200)),
        (b"k", b"x" * LIMIT),
        (None, b"x" * 100 * LIMIT),
        (b"k" * 2 * LIMIT, None),
        (b"k" * 2 * LIMIT, b"x" * 2 * LIMIT),
    ],
)
def test_a_letter_fits_into_the_limit_and_states_what_was_cut_off(key, value):
    letter = DeadLetter(3, 7, key, value, "not json")
    sent_key, sent_value, headers = fitted(letter, "clicks", LIMIT)
    size = len(sent_key or b"") + len(sent_value or b"") + sum(map(len, headers.values()))
    assert size <= LIMIT - FRAMING + 100
    assert (sent_key is None) == (key is None)
    assert (sent_value is None) == (value is None)
    assert (key or b"").startswith(sent_key or b"")
    assert (value or b"").startswith(sent_value or b"")
    if headers.get("strom.truncated"):
        assert int(headers["strom.value.bytes"]) == len(value or b"")
        assert size > LIMIT - FRAMING - 100  # no more is cut off than must be
    else:
        assert (sent_key, sent_value) == (key, value)
    assert headers["strom.offset"] == b"7"


def test_reasons_are_bounded_and_the_view_is_named():
    letter = DeadLetter(0, 0, None, b"x", "y" * 100_000, "pages")
    _, value, headers = fitted(letter, "clicks", LIMIT)
    assert value == b"x"
    assert len(headers["strom.reason"]) == 1_000
    assert headers["strom.view"] == b"pages"


def test_a_malformed_record_as_large_as_a_topic_takes_stops_nothing(world):
    producer = Producer(
        {"bootstrap.servers": world.kafka.servers, "message.max.bytes": 1_040_000, "log_level": 0}
    )
    large = b"x" * 1_020_000
    producer.produce(world.stream.topic, large, partition=0, headers={"h": b"v" * 100})
    assert producer.flush(10) == 0
    world.send([{"n": 1}])
    world.speed().step()
    assert world.query('SELECT rows FROM "all"') == [{"rows": 1}]
    assert world.query(f"SELECT value FROM {world.dead.feed.name}") == [{"value": large}]
    (letter,) = letters_in(world.kafka.servers, world.stream.dead_letter_topic)
    headers = headers_of(letter)
    assert headers["strom.truncated"] == "true"
    assert headers["strom.value.bytes"] == "1020000"
    assert (headers["strom.partition"], headers["strom.offset"]) == ("0", "0")
    assert 900_000 < len(letter.value()) < 1_000_000


def test_a_malformed_record_of_a_year_beyond_9999_stops_nothing(world):
    any_time = ConfigEntry(
        "message.timestamp.after.max.ms",
        str(2**63 - 1),
        incremental_operation=AlterConfigOpType.SET,
    )
    topic = ConfigResource(ResourceType.TOPIC, world.stream.topic, incremental_configs=[any_time])
    world.kafka.admin.incremental_alter_configs([topic])[topic].result(10)
    producer = Producer({"bootstrap.servers": world.kafka.servers, "log_level": 0})
    producer.produce(world.stream.topic, b"bad", partition=0, timestamp=600_000_000_000_000)
    assert producer.flush(10) == 0
    world.speed().step()
    assert world.query(f"SELECT value FROM {world.dead.feed.name}") == [{"value": b"bad"}]
    assert len(letters_in(world.kafka.servers, world.stream.dead_letter_topic)) == 1


def test_more_letters_than_the_local_queue_holds_are_all_sent_in_slices(world, monkeypatch):
    monkeypatch.setattr("strom.pipelines.layers.speed.DEAD_SLICE_BYTES", 400_000)
    world.kafka = KafkaLog(world.kafka.servers, {"queue.buffering.max.messages": "50"})
    send, calls = world.kafka.send_dead_letters, []

    def filling_up(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise DeadLettersRefused("the broker is full")
        send(*arguments)

    monkeypatch.setattr(world.kafka, "send_dead_letters", filling_up)
    malformed = [b"{%03d" % number for number in range(1_000)]
    world.send(malformed)
    speed = world.speed()
    speed.states.chance = lambda: 1.0
    assert speed.step() == 1_000  # for the view; the dead letters wait
    assert speed.progress.dead_letters == 0
    now = time.monotonic()
    speed.states.clock = lambda: now + 60
    assert speed.step() == 1_000
    assert speed.progress.dead_letters == 1_000
    # What was confirmed before the refusal is not sent again.
    sent = [one.value() for one in letters_in(world.kafka.servers, world.stream.dead_letter_topic)]
    assert sorted(sent) == malformed
    name = world.dead.feed.name
    assert world.query(f"SELECT count(DISTINCT value) AS n FROM {name}") == [{"n": 1_000}]
    folder = world.manifests.view_folder(name)
    (segment,) = world.manifests.existing(name).active_version.segments
    sizes = [pq.read_metadata(folder / file).num_rows for file in segment.files]
    assert len(sizes) == 3
    assert max(sizes) < 400


def test_few_malformed_records_come_with_the_first_job_and_more_by_a_second(world, monkeypatch):
    fetched = []

    def fetching(rows):
        fetched.append(rows)
        return malformed_rows(rows)

    monkeypatch.setattr(speed, "malformed_rows", fetching)
    layer = world.speed()
    world.send([b"one", {"n": 1}, b"two"])
    assert layer.step() == 3
    assert fetched == []
    monkeypatch.setattr(parsing, "_WHOLE_RECORDS", 1)
    world.send([b"three", b"four", b"five"])
    assert layer.step() == 3
    assert len(fetched) == 1
    stored = world.query(f"SELECT value, reason, _offset FROM {world.dead.feed.name}")
    assert sorted(row["value"] for row in stored) == [b"five", b"four", b"one", b"three", b"two"]
    assert {row["reason"] for row in stored} == {"not json of the schema"}
    sent = letters_in(world.kafka.servers, world.stream.dead_letter_topic)
    assert sorted(one.value() for one in sent) == sorted(row["value"] for row in stored)


def limit_messages(kafka, topic, size):
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    kafka.admin.incremental_alter_configs([resource])[resource].result(10)


def test_letters_that_the_broker_refuses_are_not_counted_as_stored(world):
    topic, name = world.stream.dead_letter_topic, world.dead.feed.name
    limit_messages(world.kafka, topic, 100)  # even headers are too large
    now = [0.0]
    speed = world.speed()
    speed.states.clock = lambda: now[0]
    world.send([{"n": 1}, b"not json"])
    assert speed.step() == 2
    assert world.query('SELECT rows FROM "all"') == [{"rows": 1}]
    assert world.query(f"SELECT * FROM {name}") == []
    assert speed.progress.dead_letters == 0
    assert speed.step() == 0  # it is not yet time to try again
    now[0] += 60
    assert speed.step() == 0
    assert speed.states.reasons == {}
    limit_messages(world.kafka, topic, 1_000_000)
    now[0] += 60
    assert speed.step() == 2
    assert [row["value"] for row in world.query(f"SELECT value FROM {name}")] == [b"not json"]
    assert [one.value() for one in letters_in(world.kafka.servers, topic)] == [b"not json"]
    assert world.query('SELECT rows FROM "all"') == [{"rows": 1}]


def test_unconfirmed_dead_letters_are_refused_after_a_while():
    kafka = KafkaLog("127.0.0.1:9", timeout_s=0.3)
    letters = [DeadLetter(0, 0, None, json.dumps({}).encode(), "odd")]
    with pytest.raises(DeadLettersRefused, match=r"t\.dead: no response within 0\.3 s"):
        kafka.send_dead_letters("t", "t.dead", letters)
