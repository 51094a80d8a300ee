"""Kafka Streams counts words exactly once, when the broker or the program is killed meanwhile."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Producer

from strom.testing import BrokerProcess
from tests.conftest import Target
from tests.foreign.word_count import LINES, Counts, WordCount, create_topics
from tools import kafka

VOCABULARY = [f"word{number}" for number in range(40)]
PATIENCE_SECONDS = 60


class Text:
    """Lines that are sent all the time, and the words that were in them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.words: Counter[str] = Counter()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
        )
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Send no more; everything is there when this returns."""
        self._enough.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _send(self) -> None:
        source = random.Random(4)
        while not self._enough.wait(0.01):
            for _ in range(5):
                words = source.choices(VOCABULARY, k=5)
                self.words.update(words)
                self._producer.produce(LINES, value=" ".join(words))
            self._producer.poll(0)


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    try:
        kafka.locate()
    except kafka.UnavailableError as reason:
        pytest.skip(f"no Kafka Streams: {reason}")


def count_through(
    bootstrap_servers: str, folder: Path, disturb: Callable[[WordCount], None], disturbances: int
) -> None:
    """Count words with disturbances in between: every count is seen once, in order, none is left out."""
    create_topics(bootstrap_servers)
    with (
        Counts(bootstrap_servers) as counts,
        WordCount(bootstrap_servers, folder) as example,
        Text(bootstrap_servers) as text,
    ):
        for _ in range(disturbances):
            assert counts.read_until(counts.total + 2000, PATIENCE_SECONDS), example.words()
            disturb(example)
        assert counts.read_until(counts.total + 2000, PATIENCE_SECONDS), example.words()
        text.end()
        assert counts.read_until(text.words.total(), PATIENCE_SECONDS), example.words()
        counts.read(2)  # should there be more than there ought to be
        assert counts.by_word == {
            word: list(range(1, count + 1)) for word, count in text.words.items()
        }


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_words_are_counted_exactly_once_though_the_counter_is_killed(
    target: Target, tmp_path: Path
) -> None:
    kept = iter([True, False])

    def kill(example: WordCount) -> None:
        example.kill()
        if not next(kept):
            example.forget_state()  # so the broker has to end the open transaction by its timeout
        example.start()

    count_through(target.bootstrap_servers, tmp_path, kill, disturbances=2)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_words_are_counted_exactly_once_though_the_broker_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:

        def kill(_: WordCount) -> None:
            broker.kill()
            broker.start()

        count_through(broker.bootstrap_servers, tmp_path, kill, disturbances=3)
