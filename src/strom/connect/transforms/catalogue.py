"""Transforms and predicates by the names that configurations hold."""

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
    """A kind of transform or predicate, not imported yet."""

    name: str
    """The short name: InsertField$Value."""
    class_name: str
    """Kafka's full name."""
    module: str
    part: Part | None = None

    def loaded(self) -> type:
        """The class."""
        loaded: type = getattr(importlib.import_module(self.module), self.name.partition("$")[0])
        return loaded

    def settings_class(self) -> type[ConnectorSettings]:
        """What declares its settings."""
        declared: type[ConnectorSettings] = self.loaded().settings_class  # type: ignore[attr-defined]
        return declared

    def transform(self, settings: ConnectorSettings) -> Transform:
        """The transform with these settings."""
        loaded = self.loaded()
        if issubclass(loaded, PartTransform) and self.part is not None:
            return loaded(settings, self.part)
        made: Transform = loaded(settings)
        return made

    def predicate(self, settings: ConnectorSettings) -> Predicate:
        """The predicate with these settings."""
        made: Predicate = self.loaded()(settings)
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
    """The kind of that name; InvalidSettings for `place` offers the nearest."""
    by_name = {known: kind for kind in kinds for known in (kind.name, kind.class_name)}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    if not near:
        hint = f" There are: {', '.join(kind.name for kind in kinds)}."
    raise InvalidSettings({place: [f"There is no {what} {name}.{hint}"]})
