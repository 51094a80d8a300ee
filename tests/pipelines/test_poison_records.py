"""Records that a view cannot compute: skipped alike by speed layer, batch and replay."""

import errno
import json

import pytest
from confluent_kafka import Producer

from strom.pipelines import Stream, View, count, max, sum  # noqa: A004
from strom.pipelines.layers.skipping import ViewFailed
from strom.pipelines.set_aside import reason_set_aside
from tests.pipelines.layers.test_dead_letters import headers_of, letters_in
from tests.pipelines.world import BEGINNING, World, fresh_topic


def numbers(stream):
    return View(
        reads=stream,
        columns={"number": "CAST(text AS INT)"},
        where="number >= 0",
        measures={"rows": count(), "total": sum("number")},
        name="numbers",
    )


def make_world(spark, servers, folder, *views, **options):
    stream = Stream(fresh_topic(), **{"schema": "text STRING", "partitions": 2, **options})
    return World(spark, servers, folder, stream, [view(stream) for view in views])


def texts(*values):
    return [{"text": value} for value in values]


def everything(stream):
    return View(reads=stream, measures={"rows": count()}, name="everything")


def test_failing_records_are_skipped_alike_in_speed_layer_batch_and_replay(
    spark, kafka_servers, tmp_path
):
    world = make_world(spark, kafka_servers, tmp_path, numbers, everything)
    # First and last of the micro-batch, alternately in partitions 0 and 1.
    world.send(texts("n/a", "1", "2", "3", "4", "none"))
    speed = world.speed()
    assert speed.step() == 6
    right = [{"rows": 4, "total": 10}]
    assert world.query("SELECT * FROM numbers") == right
    assert world.query("SELECT * FROM everything") == [{"rows": 6}]
    skipped = world.manifests.existing("numbers").active_version.skipped
    assert skipped == ((0, 0), (1, 2))
    letters = letters_in(kafka_servers, world.stream.dead_letter_topic)
    assert sorted(json.loads(one.value())["text"] for one in letters) == ["n/a", "none"]
    assert {headers_of(one)["strom.view"] for one in letters} == {"numbers"}
    reasons = {headers_of(one)["strom.reason"] for one in letters}
    assert any('\'n/a\' of the type "STRING" cannot be cast to "INT"' in one for one in reasons)

    world.archive()
    assert world.batch("numbers").records == 6
    assert world.query("SELECT * FROM numbers") == right
    assert len(letters_in(kafka_servers, world.stream.dead_letter_topic)) == 2  # not sent again
    world.replay(numbers(world.stream))
    assert world.query("SELECT * FROM numbers") == right
    version = world.manifests.existing("numbers").active_version
    assert (version.number, version.skipped) == (2, skipped)
    world.close()


def test_a_batch_ahead_of_the_speed_layer_finds_failing_records_itself(
    spark, kafka_servers, tmp_path, monkeypatch
):
    world = make_world(spark, kafka_servers, tmp_path, numbers)
    world.send(texts("1", "n/a", "2"))
    world.archive()
    with monkeypatch.context() as limited:
        limited.setattr("strom.pipelines.layers.skipping.MOST_PER_VERSION", 0)
        with pytest.raises(ViewFailed, match="exceed the limit of 0"):
            world.batch("numbers")

    def no_space(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:  # after the letter was sent, as a crash might be
        full.setattr("strom.pipelines.layers.skipping.SegmentWriter._noted", no_space)
        with pytest.raises(OSError, match="No space left"):
            world.batch("numbers")
    assert world.manifests.existing("numbers").active_version.segments == ()
    world.batch("numbers")
    assert world.query("SELECT * FROM numbers") == [{"rows": 2, "total": 3}]
    # At least once: the first batch did not note that it had sent one.
    letters = letters_in(kafka_servers, world.stream.dead_letter_topic)
    assert [json.loads(one.value()) for one in letters] == texts("n/a", "n/a")
    assert world.manifests.existing("numbers").active_version.skipped == ((1, 0),)
    world.close()


def test_a_view_with_too_many_failing_records_is_set_aside_and_others_go_on(
    spark, kafka_servers, tmp_path, monkeypatch
):
    monkeypatch.setattr("strom.pipelines.layers.skipping.MOST_PER_STEP", 1)
    world = make_world(spark, kafka_servers, tmp_path, numbers, everything)
    world.send(texts("n/a", "n/a", "5"))
    speed = world.speed()
    assert speed.step() == 3
    reason = speed.states.reasons["numbers", 1]
    assert "cannot compute more than 1 of the 3 records" in reason
    assert "strom replay numbers" in reason
    assert reason_set_aside(world.manifests, "numbers") == reason
    world.send(texts("6"))
    assert speed.step() == 1
    assert world.manifests.existing("numbers").active_version.segments == ()
    assert world.query("SELECT * FROM everything") == [{"rows": 4}]
    assert (speed.progress.lag, speed.progress.lags["numbers"]) == (0, 4)
    assert letters_in(kafka_servers, world.stream.dead_letter_topic) == []
    assert world.speed().states.is_ready("numbers", 1)  # as after a restart
    world.close()


def test_records_that_only_fail_together_set_their_view_aside(spark, kafka_servers, tmp_path):
    def large(stream):
        return View(
            reads=stream,
            measures={"total": sum("CAST(text AS DECIMAL(38, 0))")},
            name="large",
        )

    world = make_world(spark, kafka_servers, tmp_path, large, everything)
    world.send(texts(*["9" * 38] * 4))
    speed = world.speed()
    speed.step()
    assert "no single record" in speed.states.reasons["large", 1]
    assert world.query("SELECT * FROM everything") == [{"rows": 4}]
    world.close()


def test_a_record_on_which_a_python_function_raises_is_skipped(spark, kafka_servers, tmp_path):
    def parsed(rows):
        from pyspark.sql.functions import udf

        return rows.withColumn("number", udf(lambda text: int(text), "int")("text"))

    def view(stream):
        return View(
            reads=stream,
            prepare=parsed,
            measures={"total": sum("number")},
            name="by_function",
        )

    world = make_world(spark, kafka_servers, tmp_path, view)
    world.send(texts("1", "x", "2"))
    world.speed().step()
    assert world.query("SELECT * FROM by_function") == [{"total": 3}]
    (letter,) = letters_in(kafka_servers, world.stream.dead_letter_topic)
    assert headers_of(letter)["strom.reason"].startswith("ValueError: invalid literal")
    world.close()


def test_a_record_on_which_a_function_of_spark_fails_without_a_condition_is_skipped(
    spark, kafka_servers, tmp_path
):
    def decoded(stream):
        return View(
            reads=stream,
            measures={
                "most": max("CAST(unbase64(text) AS STRING)"),
                "items": sum("size(sequence(5, length(text), -1))"),
            },
            name="decoded",
        )

    world = make_world(spark, kafka_servers, tmp_path, decoded)
    world.send(texts("YQ==", "0", "YWFhYWFh", "YWI="))
    world.speed().step()
    assert world.query("SELECT * FROM decoded") == [{"most": "ab", "items": 4}]
    assert world.manifests.existing("decoded").active_version.skipped == ((0, 1), (1, 0))
    world.close()


def test_no_record_is_skipped_where_a_worker_lacks_something(spark, kafka_servers, tmp_path):
    there = tmp_path / "model"

    def scored(rows):
        from pyspark.sql.functions import udf

        return rows.withColumn(
            "number", udf(lambda text: int(open(there).read() + text), "int")("text")
        )

    def view(stream):
        return View(reads=stream, prepare=scored, measures={"total": sum("number")}, name="scored")

    world = make_world(spark, kafka_servers, tmp_path, view, everything)
    world.send(texts("1", "2"))
    speed = world.speed()
    speed.step()
    assert "FileNotFoundError" in speed.states.retry_reason("scored", 1)
    assert world.query("SELECT * FROM everything") == [{"rows": 2}]
    assert world.manifests.existing("scored").active_version.skipped == ()
    there.write_text("1")
    world.speed().step()
    assert world.query("SELECT * FROM scored") == [{"total": 23}]
    world.close()


def test_a_csv_record_of_more_columns_than_the_parser_takes_is_malformed(
    spark, kafka_servers, tmp_path
):
    world = make_world(spark, kafka_servers, tmp_path, everything, format="csv", schema="a STRING")
    quoted = b'"' + b"," * 50_000 + b'"'
    world.send([b"," * 100_000, b"x", quoted, b"," * 99_998])
    world.speed().step()
    name = world.dead.feed.name
    assert world.query(f"SELECT _offset, reason FROM {name} WHERE _partition = 0") == [
        {"_offset": 0, "reason": "more than 100000 columns"}
    ]
    assert world.manifests.existing("everything").active_version.position - BEGINNING == 4
    world.close()


def send_raw(world, *records):
    producer = Producer({"bootstrap.servers": world.kafka.servers, "log_level": 0})
    for key, value in records:
        producer.produce(world.stream.topic, value, key, partition=0)
    assert producer.flush(10) == 0


def test_a_string_that_is_not_utf8_is_malformed(spark, kafka_servers, tmp_path):
    def values(stream):
        return View(reads=stream, keys=["value"], measures={"rows": count()}, name="by_value")

    world = make_world(spark, kafka_servers, tmp_path, values, format="string", schema="")
    send_raw(world, (None, "grün".encode()), (None, b"gr\xfcn"), (None, None))
    world.speed().step()
    assert world.query("SELECT * FROM by_value") == [{"value": "grün", "rows": 1}]
    name = world.dead.feed.name
    assert world.query(f"SELECT value, reason FROM {name} ORDER BY value NULLS LAST") == [
        {"value": b"gr\xfcn", "reason": "the value is not valid UTF-8"},
        {"value": None, "reason": "the record has no value"},
    ]
    world.close()


def test_strings_made_of_bytes_are_valid_and_the_same_in_all_layers(spark, kafka_servers, tmp_path):
    def keys(stream):
        return View(
            reads=stream,
            columns={
                "k": "CAST(_key AS STRING)",
                "nested": "array(map('k', CAST(_key AS STRING)))",
            },
            keys=["k"],
            measures={"rows": count(), "most": max("CAST(_key AS STRING)")},
            name="by_key",
        )

    def greatest(stream):
        return View(reads=stream, measures={"most": max("CAST(_key AS STRING)")}, name="greatest")

    def rows(stream):
        return View(
            reads=stream,
            columns={"nested": "struct(map(CAST(_key AS STRING), text) AS m)"},
            name="rows",
        )

    world = make_world(spark, kafka_servers, tmp_path, keys, greatest, rows)
    # U+FFFD, which stands for the invalid byte, comes before the last key; the byte itself after it.
    odd = [
        (b"\xff", b'{"text":"\xfe"}'),
        ("\U0001f600".encode(), b'{"text":"b"}'),
        (b"a", b'{"text":"c"}'),
    ]
    speed = world.speed()
    for record in odd:
        send_raw(world, record)
        speed.step()

    def answers():
        return (
            world.query("SELECT * FROM by_key ORDER BY k"),
            world.query("SELECT * FROM greatest"),
            world.query("SELECT nested, text FROM rows ORDER BY text"),
        )

    by_speed = answers()
    assert [row["k"] for row in by_speed[0]] == ["a", "\ufffd", "\U0001f600"]
    assert by_speed[1] == [{"most": "\U0001f600"}]
    assert [row["text"] for row in by_speed[2]] == ["b", "c", "\ufffd"]
    world.archive()
    for name in world.targets:
        world.batch(name)
    assert answers() == by_speed
    world.close()
