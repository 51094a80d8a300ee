"""Robustness: without a schema nobody can check what producers write.

A second producer of a stream tries to keep to the format of the first, and fails in a detail. Without a
schema its record gets in, and the reader breaks, later and elsewhere. With one, the producer's own
serializer refuses it; and who goes around the serializer is refused by the broker.
"""

import json

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from lesson import Outcome, Stage, play

READING = json.dumps(
    {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "sensor", "type": "string"},
            {"name": "celsius", "type": "double"},
        ],
    }
)
RIGHT = {"sensor": "hall", "celsius": 21.5}
WRONG = {"sensor": "roof", "celcius": "warm"}


def lesson(stage: Stage) -> Outcome:
    """Send a right and a wrong record, without and with a schema."""
    return {**without_schema(stage), **with_schema(stage)}


def without_schema(stage: Stage) -> Outcome:
    """Both get in; the mean of all readings is nobody's any more."""
    topic = stage.topic("readings")
    for reading in (RIGHT, WRONG):
        stage.send(topic, json.dumps(reading).encode())
    readings = [json.loads(value) for value in stage.read(topic, 2)]
    try:
        told = f"the mean is {sum(one['celsius'] for one in readings) / len(readings)}"
    except (KeyError, TypeError) as error:
        told = f"it breaks: {type(error).__name__} {error}"
    return {
        "without a schema, a wrong record": "is taken",
        "without a schema, the reader": told,
    }


def with_schema(stage: Stage) -> Outcome:
    """The wrong one is refused, wherever it tries to get in."""
    # Only strom knows this setting: on a Kafka the serializer alone stands guard.
    try:
        topic, guarded = stage.topic("checked", **{"strom.schema.validation": "true"}), True
    except Exception:  # noqa: BLE001 - a Kafka says that it does not know the setting
        topic, guarded = stage.topic("checked"), False
    outcome = {}
    with SchemaRegistryClient({"url": stage.registry_url}) as registry:
        context = SerializationContext(topic, MessageField.VALUE)
        serialize = AvroSerializer(registry, READING)
        stage.send(topic, serialize(RIGHT, context))
        try:
            serialize(WRONG, context)
        except Exception as error:  # noqa: BLE001 - whatever the serializer raises is its answer
            outcome["with a schema, the wrong record"] = f"is refused by the serializer: {error}"
        if guarded:
            said = stage.send(topic, json.dumps(WRONG).encode())
            outcome["with a schema, past the serializer"] = f"is refused by the broker: {said}"
        deserialize = AvroDeserializer(registry)
        readings = [deserialize(value, context) for value in stage.read(topic, 1)]
    outcome["with a schema, the reader"] = (
        f"the mean is {sum(one['celsius'] for one in readings) / len(readings)}"
    )
    return outcome


if __name__ == "__main__":
    play("Robustness", lesson)
