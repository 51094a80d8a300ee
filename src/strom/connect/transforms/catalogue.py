"""Transforms and predicates by the class names in configurations."""

import difflib
import importlib
from typing import NamedTuple

from strom.connect.api import ConnectorSettings, InvalidSettings
from strom.connect.transforms.contract import Part, PartTransform, Predicate, Transform

_HERE = "strom.connect.transforms"
_KAFKAS = "org.apache.kafka.connect.transforms"
_OF_A_PART = {
    "Cast": "cast",
    "ExtractField": "extract_field",
    "Flatten": "flatten",
    "HeaderFrom": "header_transforms",
    "HoistField": "hoist_field",
    "InsertField": "insert_field",
    "MaskField": "mask_field",
    "ReplaceField": "replace_field",
    "SetSchemaMetadata": "set_schema_metadata",
    "TimestampConverter": "timestamp_converter",
}
_OF_RECORDS = {
    "DropHeaders": "header_transforms",
    "Filter": "filter",
    "InsertHeader": "header_transforms",
    "RegexRouter": "regex_router",
    "TimestampRouter": "timestamp_router",
    "ValueToKey": "value_to_key",
}
_PREDICATES = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")


class TransformPlugin(NamedTuple):
    """A transform or predicate class that is not imported yet."""

    name: str
    """The short name, such as InsertField$Value."""
    class_name: str
    """The class name in Kafka."""
    module: str
    part: Part | None = None

    def load(self) -> type:
        load: type = getattr(importlib.import_module(self.module), self.name.partition("$")[0])
        return load

    def settings_class(self) -> type[ConnectorSettings]:
        declared: type[ConnectorSettings] = self.load().settings_class  # type: ignore[attr-defined]
        return declared

    def transform(self, settings: ConnectorSettings) -> Transform:
        load = self.load()
        if issubclass(load, PartTransform) and self.part is not None:
            return load(settings, self.part)
        made: Transform = load(settings)
        return made

    def predicate(self, settings: ConnectorSettings) -> Predicate:
        made: Predicate = self.load()(settings)
        return made


TRANSFORMS = tuple(
    TransformPlugin(
        f"{name}${part.value}", f"{_KAFKAS}.{name}${part.value}", f"{_HERE}.{module}", part
    )
    for name, module in _OF_A_PART.items()
    for part in Part
) + tuple(
    TransformPlugin(name, f"{_KAFKAS}.{name}", f"{_HERE}.{module}")
    for name, module in _OF_RECORDS.items()
)
PREDICATES = tuple(
    TransformPlugin(name, f"{_KAFKAS}.predicates.{name}", f"{_HERE}.predicates")
    for name in _PREDICATES
)


def find(kinds: tuple[TransformPlugin, ...], name: str, place: str, what: str) -> TransformPlugin:
    """The class of this name; InvalidSettings for `place` suggests the nearest."""
    by_name = {known: kind for kind in kinds for known in (kind.name, kind.class_name)}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    if not near:
        hint = f" Available: {', '.join(kind.name for kind in kinds)}."
    raise InvalidSettings({place: [f"Unknown {what} {name}.{hint}"]})
