"""HoistField, ExtractField, Flatten: transforms of nested structs and maps."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strom.connect.api import ConnectorSettings, Field, PoisonRecord, Schema, Type
from strom.connect.logical_values import has_default
from strom.connect.setting_forms import string
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    field_value,
    problem_of,
    with_fields,
)


@dataclass(frozen=True, kw_only=True)
class HoistFieldSettings(ConnectorSettings):
    field: str = string("field", "The name of the struct's field.", required=True)


class HoistField(PartTransform):
    """Wraps the key or value into a struct (or map) with one field."""

    settings_class = HoistFieldSettings

    def derive(self, schema: Schema) -> Schema:
        return Schema(Type.STRUCT, fields=(Field(self.settings.field, schema),))

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        updated = None if schema is None else self._derived(schema)
        return updated, {self.settings.field: value}

    def all_changed(
        self, schema: Schema | None, values: Sequence[Any]
    ) -> tuple[Schema | None, Sequence[Any]]:
        updated = None if schema is None else self._derived(schema)
        field = self.settings.field
        return updated, [{field: value} for value in values]


@dataclass(frozen=True, kw_only=True)
class ExtractFieldSettings(NullSettings):
    field: str = string("field", "The field to extract.", required=True)
    syntax_version: str = string(
        "field.syntax.version",
        "V1: the field's plain name. V2: a path of names separated by dots; a name that contains "
        "a dot is quoted in backticks.",
        "V1",
    )

    def validate(self) -> dict[str, str]:
        if self.syntax_version.upper() not in {"V1", "V2"}:
            return {"field.syntax.version": f"It must be V1 or V2, not {self.syntax_version}."}
        return problem_of("field", self.steps)

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

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            for step in self._steps:
                value = None if value is None else self.map_value(value).get(step)
            return None, value
        way: list[Field] = self._derived(schema)
        for field in way[:-1]:
            value = self._inner(value, field, replace_null=True)
        return way[-1].schema, self._inner(value, way[-1], self.settings.replace_null)

    def derive(self, schema: Schema) -> list[Field]:
        way: list[Field] = []
        for step in self._steps:
            found = (way[-1].schema if way else schema).field(step)
            if found is None:
                raise PoisonRecord(f"The field to extract, {self.settings.field}, does not exist.")
            way.append(found)
        return way

    def _inner(self, value: Any, field: Field, replace_null: bool) -> Any:
        return None if value is None else field_value(self.struct_value(value), field, replace_null)


def parse_path(text: str) -> tuple[str, ...]:
    r"""The names of a path such as ``a.`b.c`.d``; ValueError if a backtick is not closed.

    A closing backtick precedes a dot or the end; ``\``` before a dot is part of the name.
    """
    steps: list[str] = []
    position = 0
    while position < len(text):
        if text[position] == "`":
            step, position = _quoted(text, position)
        else:
            end = text.find(".", position)
            end = len(text) if end < 0 else end
            step, position = text[position:end], end + 1
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(text: str, opening: int) -> tuple[str, int]:
    step = ""
    start = position = opening + 1
    while True:
        position = text.find("`", position)
        last = position == len(text) - 1
        escaped = position > 0 and text[position - 1] == "\\"
        if position < 0 or (last and escaped):
            raise ValueError(f"The backtick at {opening} of {text} is not closed.")
        if last or (text[position + 1] == "." and not escaped):
            return step + text[start:position], position + 2
        if text[position + 1] == ".":
            step += text[start : position - 1] + "`"
            start = position + 1
        position += 1


@dataclass(frozen=True, kw_only=True)
class FlattenSettings(ConnectorSettings):
    """How nested fields are named."""

    delimiter: str = string("delimiter", "The separator in the name of a nested field.", ".")


class Flatten(PartTransform):
    """Names nested fields by their path, and removes the nesting."""

    settings_class = FlattenSettings

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, None
        if schema is None:
            return None, dict(self._flat_map(self.map_value(value), ""))
        updated = self._derived(schema)
        return updated, dict(self._flat_struct(schema, self.struct_value(value), ""))

    def _flat_map(self, value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, item in value.items():
            if isinstance(item, Mapping):
                yield from self._flat_map(item, f"{prefix}{key}{self.settings.delimiter}")
            else:
                yield f"{prefix}{key}", item

    def _flat_struct(
        self, schema: Schema, value: Mapping[str, Any], prefix: str
    ) -> Iterator[tuple[str, Any]]:
        for field in schema.fields:
            if field.schema.type is not Type.STRUCT:
                yield prefix + field.name, field_value(value, field, replace_null=True)
            elif (inner := value.get(field.name)) is not None:
                deeper = f"{prefix}{field.name}{self.settings.delimiter}"
                yield from self._flat_struct(field.schema, inner, deeper)

    def derive(self, schema: Schema) -> Schema:
        self.struct_fields(schema)
        default = schema.default if has_default(schema) else None
        return with_fields(schema, list(self._fields(schema, "", schema.optional, default)))

    def _fields(
        self, schema: Schema, prefix: str, optional: bool, default: Mapping[str, Any] | None
    ) -> Iterator[Field]:
        """The fields of one level; the fields of an optional struct are optional."""
        for field in schema.fields:
            own = field.schema
            may_miss = optional or own.optional
            fallback = own.default if has_default(own) else (default or {}).get(field.name)
            if own.type is Type.STRUCT:
                deeper = f"{prefix}{field.name}{self.settings.delimiter}"
                yield from self._fields(own, deeper, may_miss, fallback)
                continue
            if own.type is Type.MAP:
                raise PoisonRecord(f"Flatten does not support maps (field {prefix}{field.name}).")
            changed = dataclasses.replace(own, optional=may_miss)
            if fallback is not None:
                changed = dataclasses.replace(changed, default=fallback)
            yield Field(prefix + field.name, changed)
