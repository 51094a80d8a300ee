"""What the three examples have in common: a broker, a registry, a topic, and how outcomes are shown."""

import argparse
import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from strom.registry.server import RegistryServer
from strom.testing import LocalBroker

WAIT_SECONDS = 30


@dataclass(frozen=True)
class Stage:
    """Where an example plays: a Kafka, and a schema registry on it."""

    bootstrap_servers: str
    registry_url: str

    def topic(self, name: str, **settings: str) -> str:
        """A new topic, with settings."""
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([NewTopic(topic, 1, config=settings)])[topic].result()
        return topic

    def send(self, topic: str, value: bytes | None) -> str | None:
        """Send one record and wait: None if it was taken, or what the broker said."""
        said: list[str | None] = []
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        producer.produce(
            topic,
            value,
            on_delivery=lambda error, _: said.append(None if error is None else error.str()),
        )
        producer.flush(WAIT_SECONDS)
        return said[0]

    def read(self, topic: str, count: int) -> list[bytes]:
        """The values of the first records of a topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": f"{topic}-{uuid.uuid4().hex[:8]}",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        values: list[bytes] = []
        while len(values) < count:
            message = consumer.poll(WAIT_SECONDS)
            if message is None:
                raise TimeoutError(f"{topic} has only {len(values)} records")
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(message.value())
        consumer.close()
        return values


Outcome = Mapping[str, str]
"""What was tried, and what came of it."""


def play(title: str, lesson: Callable[[Stage], Outcome]) -> None:
    """Run an example on the Kafka that was named, or on a broker of its own, and show the outcome."""
    arguments = argparse.ArgumentParser(description=title)
    arguments.add_argument("--bootstrap-server", help="strom or Kafka; one is started if not named")
    arguments.add_argument("--json", action="store_true", help="print the outcome as JSON")
    given = arguments.parse_args()
    with ExitStack() as running:
        servers = given.bootstrap_server
        if servers is None:
            servers = running.enter_context(LocalBroker()).bootstrap_servers
        registry = running.enter_context(RegistryServer(servers))
        outcome = lesson(Stage(servers, registry.url))
    if given.json:
        print(json.dumps(outcome, ensure_ascii=False))
        return
    table = Table("tried", "came of it", title=title, show_lines=True)
    for tried, came in outcome.items():
        table.add_row(tried, came)
    Console().print(table)
