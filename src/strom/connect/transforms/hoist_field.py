"""HoistField: wraps the key or value into a struct."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strom.connect.api import ConnectorSettings, Field, Kind, Schema, Type, setting
from strom.connect.schema_cache import SchemaCache
from strom.connect.transforms.contract import Part, PartTransform


@dataclass(frozen=True, kw_only=True)
class HoistFieldSettings(ConnectorSettings):
    field: str = setting("field", Kind.STRING, "The name of the struct's field.", required=True)


class HoistField(PartTransform):
    """Wraps the key or value into a struct (or map) with one field."""

    settings_class = HoistFieldSettings

    def __init__(self, settings: HoistFieldSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._schemas = SchemaCache(
            lambda schema: Schema(Type.STRUCT, fields=(Field(settings.field, schema),))
        )

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        updated = None if schema is None else self._schemas(schema)
        return updated, {self.settings.field: value}

    def all_changed(
        self, schema: Schema | None, values: Sequence[Any]
    ) -> tuple[Schema | None, Sequence[Any]]:
        updated = None if schema is None else self._schemas(schema)
        field = self.settings.field
        return updated, [{field: value} for value in values]
