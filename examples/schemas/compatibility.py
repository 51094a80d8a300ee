"""Compatibility: with each other over time, and with whatever else reads the data.

A schema grows a field. Consumers that have not heard of it read on, and new ones read old data. A change
that would break somebody is refused when it is registered, and not found out in production. The same
bytes are read by two Avro libraries that have nothing in common; Java's clients and Spark do so too.
"""

import io
import json

import avro.io
import avro.schema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from lesson import Outcome, Stage, play

from strom.registry.client import RegistryClient, RegistryError, unframe


def click(*fields: dict[str, object]) -> str:
    """A schema of clicks."""
    page = {"name": "page", "type": "string"}
    return json.dumps({"type": "record", "name": "Click", "fields": [page, *fields]})


FIRST = click()
SECOND = click({"name": "device", "type": "string", "default": "unknown"})
BREAKING = click({"name": "user", "type": "string"})


def lesson(stage: Stage) -> Outcome:
    """Let a schema grow, while old and new programs read and write."""
    topic = stage.topic("clicks")
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": stage.registry_url}) as registry:
        registry.set_compatibility(f"{topic}-value", "FULL")
        stage.send(topic, AvroSerializer(registry, FIRST)({"page": "/"}, context))
        stage.send(
            topic, AvroSerializer(registry, SECOND)({"page": "/cart", "device": "phone"}, context)
        )
        old, new = stage.read(topic, 2)
        outcome = {
            "an old consumer reads new data": str(AvroDeserializer(registry, FIRST)(new, context)),
            "a new consumer reads old data": str(AvroDeserializer(registry, SECOND)(old, context)),
        }
    with RegistryClient(stage.registry_url) as client:
        try:
            client.register(f"{topic}-value", BREAKING)
        except RegistryError as error:
            outcome["a change that breaks readers"] = f"is refused: {error}"
        outcome["Apache's Avro library reads the same bytes"] = str(read_by_apache(client, new))
    return outcome


def read_by_apache(client: RegistryClient, value: bytes) -> object:
    """Read a record with the reference implementation, which knows nothing of registries."""
    schema_id, payload = unframe(value)
    schema = avro.schema.parse(client.schema(schema_id).text)
    return avro.io.DatumReader(schema).read(avro.io.BinaryDecoder(io.BytesIO(payload)))


if __name__ == "__main__":
    play("Compatibility", lesson)
