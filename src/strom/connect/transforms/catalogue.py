"""Transforms and predicates by the class names in configurations."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from strom.connect.api import ConnectorSettings
from strom.connect.plugins import load_class
from strom.connect.transforms.contract import Part

_HERE = "strom.connect.transforms"
_KAFKAS = "org.apache.kafka.connect.transforms"
_OF_A_PART = {
    "cast": ("Cast",),
    "field_transforms": ("InsertField", "ReplaceField", "SetSchemaMetadata"),
    "header_transforms": ("HeaderFrom",),
    "mask_field": ("MaskField",),
    "nesting": ("ExtractField", "Flatten", "HoistField"),
    "timestamp_converter": ("TimestampConverter",),
}
_OF_RECORDS = {
    "field_transforms": ("ValueToKey",),
    "header_transforms": ("DropHeaders", "InsertHeader"),
    "routing": ("Filter", "RegexRouter", "TimestampRouter"),
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

    def load(self) -> Any:
        return load_class(f"{self.module}:{self.name.partition('$')[0]}")

    def settings_class(self) -> type[ConnectorSettings]:
        declared: type[ConnectorSettings] = self.load().settings_class
        return declared

    def make(self, settings: ConnectorSettings) -> Any:
        """Create the transform or predicate."""
        return self.load()(settings) if self.part is None else self.load()(settings, self.part)


def _by_name(modules: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    return sorted((name, module) for module, names in modules.items() for name in names)


TRANSFORMS = tuple(
    TransformPlugin(
        f"{name}${part.value}", f"{_KAFKAS}.{name}${part.value}", f"{_HERE}.{module}", part
    )
    for name, module in _by_name(_OF_A_PART)
    for part in Part
) + tuple(
    TransformPlugin(name, f"{_KAFKAS}.{name}", f"{_HERE}.{module}")
    for name, module in _by_name(_OF_RECORDS)
)
PREDICATES = tuple(
    TransformPlugin(name, f"{_KAFKAS}.predicates.{name}", f"{_HERE}.predicates")
    for name in _PREDICATES
)
