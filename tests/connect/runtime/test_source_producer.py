"""A source's producer: what it sends in which transaction, and what it reports."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from strom.connect.api import ConnectError, RetriableError
from strom.connect.runtime import source_producer
from strom.connect.runtime.conversion import ANY_PARTITION, NOW, ProducerRecord
from strom.connect.runtime.source_producer import SourceProducer


class RecordedProducer:
    """Records the calls; a call with an error in `fails` raises it, once."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.fails: dict[str, Exception] = {}
        self.settings: Any = None
        self.on_failure: Any = None

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            if name in self.fails:
                raise self.fails.pop(name)
            return 0

        return call

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


@pytest.fixture
def below() -> RecordedProducer:
    return RecordedProducer()


@pytest.fixture
def made(below):
    """Makes the producer; returns it with the recorded one below it."""

    def make(transactional_id="id"):
        def create(settings, on_failure):
            below.settings, below.on_failure = settings, on_failure
            return below

        clients: Any = SimpleNamespace(producer=create, overrides={}, settings={})
        return SourceProducer(clients, transactional_id, 5000, "c-0"), below

    return make


def error(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def record(value: bytes = b"v") -> ProducerRecord:
    return ProducerRecord("t", value, None, ANY_PARTITION, NOW, None)


def never(problem):
    raise AssertionError(problem)


def test_the_transaction_begins_with_the_first_record_and_ends_with_its_offsets(made):
    producer, below = made()
    producer.produce([], never)
    assert "begin_transaction" not in below.names()
    producer.produce([record()], never)
    producer.produce([record()], never)
    producer.commit("offsets", [("key", {"position": 2})])
    producer.abort()
    kept = [one for one in below.calls if one[0] != "poll"]
    assert kept == [
        ("init_transactions", source_producer.TRANSACTION_S),
        ("begin_transaction",),
        ("produce", "t", b"v", None),
        ("produce", "t", b"v", None),
        ("produce", "offsets", b'{"position": 2}', b"key"),
        ("commit_transaction", source_producer.TRANSACTION_S),
    ]


def test_an_open_transaction_is_aborted_once(made):
    producer, below = made()
    producer.produce([record()], never)
    producer.abort()
    producer.abort()
    assert below.names().count("abort_transaction") == 1


def test_without_an_id_there_are_no_transactions(made):
    producer, below = made(None)
    producer.produce([record()], never)
    producer.flush()
    producer.abort()
    assert below.names() == ["produce", "poll", "flush"]
    assert below.settings == {}


def test_the_timeout_of_transactions_covers_the_interval_and_the_commit(made):
    assert made()[1].settings["transaction.timeout.ms"] == 65_000


def test_a_full_queue_is_waited_for(made):
    producer, below = made()
    below.fails["produce"] = BufferError()
    producer.produce([record(b"1"), record(b"2")], never)
    sent = [one[2] for one in below.calls if one[0] == "produce"]
    assert sent == [b"1", b"1", b"2"]


def test_a_record_that_is_too_large_is_refused_alone(made):
    producer, below = made()
    below.fails["produce"] = error(KafkaError.MSG_SIZE_TOO_LARGE)
    refused: list[ConnectError] = []
    producer.produce([record(b"large"), record()], refused.append)
    [problem] = refused
    assert "A record of 5 bytes cannot be written to topic t" in str(problem)
    assert below.names().count("produce") == 2


def test_any_other_error_of_the_producer_is_raised(made):
    producer, below = made()
    below.fails["produce"] = error(KafkaError._FENCED)
    with pytest.raises(ConnectError, match="cannot be written to topic t"):
        producer.produce([record()], never)


def test_a_failed_delivery_fails_the_next_call(made):
    producer, below = made()
    below.on_failure(None, None)
    producer.flush()
    below.on_failure(KafkaError(KafkaError._MSG_TIMED_OUT), _Message())
    with pytest.raises(ConnectError, match="A record of 3 bytes cannot be written to topic t"):
        producer.flush()


class _Message:
    def topic(self) -> str:
        return "t"

    def __len__(self) -> int:
        return 3


def test_a_transaction_that_was_open_for_too_long_is_explained(made, monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    producer, below = made()
    producer.produce([record()], never)
    now = 70.0
    below.fails["commit_transaction"] = error(KafkaError.INVALID_PRODUCER_EPOCH)
    with pytest.raises(ConnectError, match=r"open for 70000 ms.*=65000"):
        producer.commit("offsets", [])


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, ConnectError),
        (KafkaError._TIMED_OUT, RetriableError),
    ],
)
def test_transactions_that_cannot_be_started_are_retried_unless_the_timeout_is_refused(
    made, below, code, kind
):
    below.fails["init_transactions"] = error(code)
    with pytest.raises(ConnectError, match="The transactions of c-0 cannot be started") as caught:
        made()
    assert type(caught.value) is kind
