"""Records, and what becomes of them here and at Kafka, in one form that can be compared."""

import json
from typing import Any

from strom.connect.api import Header, InvalidSettings, PoisonRecord, SinkRecord, SourceRecord
from strom.connect.converters import make_converter
from strom.connect.converters.json_values import as_single
from strom.connect.transforms import PREDICATES, TRANSFORMS, make_chain
from tests.connect.judge import Judge

# A missing value stays missing until a transform puts the default in its place.
ENVELOPE = make_converter("JSON", {"replace.null.with.default": "false"}, is_key=False)
KAFKAS_NAME = {kind.name: kind.class_name for kind in (*TRANSFORMS, *PREDICATES)}
NOTHING = (None, None)


def record(
    value=NOTHING,
    *,
    key=NOTHING,
    topic="orders",
    partition=3,
    offset=42,
    timestamp=None,
    headers=(),
):
    """A sink's record, or with offset None a source's; key, value and headers as (schema, value)."""
    shared = {
        "topic": topic,
        "partition": partition,
        "key_schema": key[0],
        "key": key[1],
        "value_schema": value[0],
        "value": value[1],
        "timestamp": timestamp,
        "headers": tuple(Header(name, item, schema) for name, (schema, item) in headers),
    }
    if offset is None:
        return SourceRecord({}, {}, **shared)
    return SinkRecord(offset=offset, **shared)


def enveloped(schema, value) -> Any:
    data = ENVELOPE.to_bytes("t", schema, value)
    return None if data is None else json.loads(data)


def shown(changed) -> dict[str, Any]:
    """The record as the judge shows it."""
    if changed is None:
        return {"dropped": True}
    headers = [[header.key, enveloped(header.schema, header.value)] for header in changed.headers]
    return {
        "record": {
            "topic": changed.topic,
            "partition": changed.partition,
            "timestamp": changed.timestamp,
            "key": enveloped(changed.key_schema, changed.key),
            "value": enveloped(changed.value_schema, changed.value),
            "headers": headers,
        }
    }


def alike(value: Any) -> Any:
    """Floats as single-precision numbers: Java before 19 does not always print the shortest digits."""
    if isinstance(value, float):
        return as_single(value)
    if isinstance(value, dict):
        return {key: alike(item) for key, item in value.items()}
    return [alike(item) for item in value] if isinstance(value, list) else value


def here(name: str, settings: dict[str, str], given) -> dict[str, Any]:
    """What our transform makes of it."""
    own = {f"transforms.it.{key}": text for key, text in settings.items()}
    try:
        chain = make_chain({"transforms": "it", "transforms.it.type": name, **own})
        return shown(chain(given))
    except (PoisonRecord, InvalidSettings) as error:
        return {"error": str(error)}


def at_kafka(judge: Judge, name: str, settings: dict[str, str], given) -> dict[str, Any]:
    """What Kafka's makes of it."""
    sent = shown(given)["record"]
    sent["offset"] = getattr(given, "offset", None)
    return judge.ask(
        {"do": "transform", "class": KAFKAS_NAME[name], "settings": settings, "record": sent}
    )
