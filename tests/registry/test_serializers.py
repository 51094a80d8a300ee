"""confluent-kafka's registry client and serializers, on strom and on the real Kafka."""

import json

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.timestamp_pb2 import Timestamp

from tests.registry.conftest import optional, record

Field = descriptor_pb2.FieldDescriptorProto
CLICK = record({"name": "page", "type": "string"}, {"name": "ms", "type": "long"})
CLICK_2 = record(
    {"name": "page", "type": "string"}, {"name": "ms", "type": "long"}, optional("user")
)
JSON_CLICK = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Click",
    "type": "object",
    "properties": {"page": {"type": "string"}, "ms": {"type": "integer"}},
    "required": ["page"],
}


@pytest.fixture
def confluent(registry):
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def through(target, topic, serialize, values):
    """Send values through the broker; the bytes that come out."""
    servers = {"bootstrap.servers": target.bootstrap_servers}
    producer = Producer(servers)
    context = SerializationContext(topic, MessageField.VALUE)
    for value in values:
        producer.produce(topic, serialize(value, context))
    assert producer.flush(30) == 0
    consumer = Consumer({**servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < len(values):
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found.append(message.value())
    consumer.close()
    return found, context


def test_avro_goes_through(target, topic, confluent):
    serialize = AvroSerializer(confluent, json.dumps(CLICK))
    clicks = [{"page": "/cart", "ms": number} for number in range(10)]
    stored, context = through(target, topic, serialize, clicks)
    deserialize = AvroDeserializer(confluent)
    assert [deserialize(one, context) for one in stored] == clicks
    assert confluent.get_latest_version(f"{topic}-value").version == 1


def test_avro_data_of_an_old_schema_is_read_with_a_new_one(target, topic, confluent):
    stored, context = through(
        target, topic, AvroSerializer(confluent, json.dumps(CLICK)), [{"page": "/", "ms": 1}]
    )
    newer = AvroDeserializer(confluent, json.dumps(CLICK_2))
    assert newer(stored[0], context) == {"page": "/", "ms": 1, "user": None}


def test_json_goes_through_and_is_validated(target, topic, confluent):
    serialize = JSONSerializer(json.dumps(JSON_CLICK), confluent)
    stored, context = through(target, topic, serialize, [{"page": "/cart", "ms": 3}])
    deserialize = JSONDeserializer(None, schema_registry_client=confluent)
    assert deserialize(stored[0], context) == {"page": "/cart", "ms": 3}
    with pytest.raises(Exception, match="page"):
        serialize({"ms": 3}, context)


def test_protobuf_goes_through_with_what_it_imports(target, topic, confluent):
    click = message_class(topic)
    serialize = ProtobufSerializer(click, confluent)
    sent = click(page="/cart")
    sent.at.seconds = 7
    stored, context = through(target, topic, serialize, [sent])
    assert ProtobufDeserializer(click, {}, confluent)(stored[0], context) == sent
    registered = confluent.get_latest_version(f"{topic}-value")
    assert registered.schema.schema_type == "PROTOBUF"
    assert "message Click" in registered.schema.schema_str


def message_class(topic):
    """A message that imports another file, as a compiled module would give it."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{topic}.proto",
        syntax="proto3",
        package="shop",
        dependency=["google/protobuf/timestamp.proto"],
        message_type=[
            descriptor_pb2.DescriptorProto(
                name="Click",
                field=[
                    Field(
                        name="page", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL
                    ),
                    Field(
                        name="at",
                        number=2,
                        type=Field.TYPE_MESSAGE,
                        type_name=".google.protobuf.Timestamp",
                        label=Field.LABEL_OPTIONAL,
                    ),
                ],
            )
        ],
    )
    pool = descriptor_pool.DescriptorPool()
    stamp = descriptor_pb2.FileDescriptorProto()
    Timestamp.DESCRIPTOR.file.CopyToProto(stamp)
    pool.Add(stamp)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Click"))


def test_the_client_of_confluent_finds_everything(confluent, subject):
    schema = Schema(json.dumps(CLICK), "AVRO")
    schema_id = confluent.register_schema(subject, schema)
    assert json.loads(confluent.get_schema(schema_id).schema_str) == CLICK
    assert confluent.lookup_schema(subject, schema).schema_id == schema_id
    assert confluent.get_versions(subject) == [1]
    assert confluent.get_version(subject, 1).schema_id == schema_id
    assert subject in confluent.get_subjects()
    assert confluent.test_compatibility(subject, Schema(json.dumps(CLICK_2), "AVRO"))
    assert not confluent.test_compatibility(subject, Schema('"int"', "AVRO"))
    confluent.set_compatibility(subject, "FULL")
    assert confluent.get_compatibility(subject) == "FULL"
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.register_schema(subject, Schema('"int"', "AVRO"))
    assert refused.value.http_status_code == 409
    using = Schema(
        json.dumps(record({"name": "click", "type": "Click"}, name="Session")),
        "AVRO",
        [SchemaReference("Click", subject, 1)],
    )
    confluent.register_schema(f"{subject}-session", using)
    assert (
        confluent.get_latest_version(f"{subject}-session").schema.references[0].subject == subject
    )
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.delete_version(subject, 1)
    assert refused.value.error_code == 42206
    for name in (f"{subject}-session", subject):
        assert confluent.delete_subject(name) == [1]
        assert confluent.delete_subject(name, permanent=True) == [1]
    assert subject not in confluent.get_subjects()


def test_the_client_of_confluent_sends_contracts_and_references_to_the_latest(
    confluent, registry, subject
):
    user = f"{subject}-user"
    confluent.register_schema(user, Schema(json.dumps(record("age", name="User")), "AVRO"))
    schema = Schema(
        json.dumps(record({"name": "by", "type": "User"}, name="Visit")),
        "AVRO",
        [SchemaReference("User", user, -1)],
        Metadata(
            tags=MetadataTags({"Visit.by": ["PII"]}),
            properties=MetadataProperties({"owner": "shop"}),
            sensitive=["owner"],
        ),
        RuleSet(
            domain_rules=[
                Rule(
                    name="known",
                    doc=None,
                    kind=RuleKind.CONDITION,
                    mode=RuleMode.WRITE,
                    type="CEL",
                    tags=None,
                    params=RuleParams({"x": "y"}),
                    expr="size(message.by) > 0",
                    on_success=None,
                    on_failure=None,
                    disabled=False,
                )
            ],
            migration_rules=None,
        ),
    )
    identity = confluent.register_schema(subject, schema)
    assert confluent.lookup_schema(subject, schema).version == 1
    with SchemaRegistryClient({"url": registry.url}) as other:  # the first one caches what it sent
        found = other.get_version(subject, 1)
    assert found.schema_id == identity
    assert [one.version for one in found.schema.references] == [1]
    assert found.schema.metadata == schema.metadata
    assert found.schema.rule_set.domain_rules[0].name == "known"
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.lookup_schema(subject, Schema(json.dumps(record("x")), "AVRO"))
    assert (refused.value.error_code, refused.value.error_message) == (40403, "Schema not found")
