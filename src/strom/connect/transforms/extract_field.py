"""ExtractField: replaces the key or value by one of its fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strom.connect.api import Field, Kind, PoisonRecord, Schema, setting
from strom.connect.schema_cache import SchemaCache
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    field_value,
    map_value,
    struct_value,
)
from strom.connect.transforms.field_paths import parse_path


@dataclass(frozen=True, kw_only=True)
class ExtractFieldSettings(NullSettings):
    field: str = setting("field", Kind.STRING, "The field to extract.", required=True)
    syntax_version: str = setting(
        "field.syntax.version",
        Kind.STRING,
        "V1: the field's plain name. V2: a path of names separated by dots; a name that contains "
        "a dot is quoted in backticks.",
        "V1",
    )

    def validate(self) -> dict[str, str]:
        if self.syntax_version.upper() not in {"V1", "V2"}:
            return {"field.syntax.version": f"It must be V1 or V2, not {self.syntax_version}."}
        try:
            self.steps()
        except ValueError as error:
            return {"field": str(error)}
        return {}

    def steps(self) -> tuple[str, ...]:
        """The names on the path to the field."""
        if self.syntax_version.upper() == "V1":
            return (self.field,)
        return parse_path(self.field)


class ExtractField(PartTransform):
    """Replaces a struct or map by one of its fields."""

    settings_class = ExtractFieldSettings

    def __init__(self, settings: ExtractFieldSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._steps = settings.steps()
        self._ways = SchemaCache(self._way)

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            for step in self._steps:
                value = None if value is None else map_value(value, "ExtractField").get(step)
            return None, value
        way = self._ways(schema)
        for field in way[:-1]:
            value = self._inner(value, field, replace_null=True)
        return way[-1].schema, self._inner(value, way[-1], self.settings.replace_null)

    def _way(self, schema: Schema) -> list[Field]:
        way: list[Field] = []
        for step in self._steps:
            found = (way[-1].schema if way else schema).field(step)
            if found is None:
                raise PoisonRecord(f"The field to extract, {self.settings.field}, does not exist.")
            way.append(found)
        return way

    @staticmethod
    def _inner(value: Mapping[str, Any] | None, field: Field, replace_null: bool) -> Any:
        if value is None:
            return None
        return field_value(struct_value(value, "ExtractField"), field, replace_null)
