"""Semantics: without a schema everyone reads something else into a number.

Two teams read the same orders. Without a schema one takes the price for euros and the time for seconds,
the other for cents and milliseconds; both are sure. With a schema the types say what is meant, and both
get the same values without having talked to each other.
"""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from lesson import Outcome, Stage, play

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORDERED_AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
PRICE = Decimal("19.99")
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "doc": "One line of an order, as the customer confirmed it.",
        "fields": [
            {
                "name": "price",
                "doc": "In euros, with tax.",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {
                "name": "at",
                "doc": "When the customer pressed the button.",
                "type": {"type": "long", "logicalType": "timestamp-millis"},
            },
        ],
    }
)


def lesson(stage: Stage) -> Outcome:
    """Let two teams read the same order, without and with a schema."""
    return {**without_schema(stage), **with_schema(stage)}


def without_schema(stage: Stage) -> Outcome:
    """Numbers are there, and what they mean is anyone's guess."""
    topic = stage.topic("orders")
    milliseconds = int(ORDERED_AT.timestamp() * 1000)
    stage.send(topic, json.dumps({"price": 1999, "at": milliseconds}).encode())
    order = json.loads(stage.read(topic, 1)[0])
    years = timedelta(seconds=order["at"]).days // 365
    return {
        "without a schema, team A (cents, milliseconds)": (
            f"{Decimal(order['price']) / 100} €, {EPOCH + timedelta(milliseconds=order['at'])}"
        ),
        "without a schema, team B (euros, seconds)": (
            f"{order['price']} €, about {years} years after 1970"
        ),
    }


def with_schema(stage: Stage) -> Outcome:
    """What is meant comes with the data."""
    topic = stage.topic("orders-with-schema")
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": stage.registry_url}) as registry:
        stage.send(
            topic, AvroSerializer(registry, ORDER)({"price": PRICE, "at": ORDERED_AT}, context)
        )
    outcome = {}
    for team in ("A", "B"):
        # Each with a client of its own: they share nothing but the address of the registry.
        with SchemaRegistryClient({"url": stage.registry_url}) as registry:
            order = AvroDeserializer(registry)(stage.read(topic, 1)[0], context)
            outcome[f"with a schema, team {team}"] = f"{order['price']} €, {order['at']}"
    with SchemaRegistryClient({"url": stage.registry_url}) as registry:
        meant = json.loads(registry.get_latest_version(f"{topic}-value").schema.schema_str)
    outcome["what the price means"] = meant["fields"][0]["doc"]
    return outcome


if __name__ == "__main__":
    play("Semantics", lesson)
