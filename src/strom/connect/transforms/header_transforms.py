"""DropHeaders, InsertHeader, HeaderFrom: transforms of headers."""

from dataclasses import dataclass
from typing import Any

from strom.connect.api import ConnectorSettings, Header, Kind, PoisonRecord, Schema, setting
from strom.connect.converters.value_text import parse_text
from strom.connect.setting_forms import string
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    R,
    Transform,
    with_fields,
)


@dataclass(frozen=True, kw_only=True)
class DropHeadersSettings(ConnectorSettings):
    headers: tuple[str, ...] = setting(
        "headers", Kind.LIST, "The names of the headers to drop.", (), required=True
    )


class DropHeaders(Transform):
    """Drops the headers of the given names."""

    settings_class = DropHeadersSettings

    def apply(self, record: R) -> R | None:
        dropped = self.settings.headers
        kept = tuple(header for header in record.headers if header.key not in dropped)
        return record._replace(headers=kept)


@dataclass(frozen=True, kw_only=True)
class InsertHeaderSettings(ConnectorSettings):
    header: str = string("header", "The header's name.", required=True)
    literal: str = string(
        "value.literal", "Its value, as text: 12, true, [1,2], abc.", required=True
    )


class InsertHeader(Transform):
    """Adds the same header to every record."""

    settings_class = InsertHeaderSettings

    def __init__(self, settings: InsertHeaderSettings) -> None:
        super().__init__(settings)
        schema, value = parse_text(settings.literal)
        self._header = Header(settings.header, value, schema)

    def apply(self, record: R) -> R | None:
        return record._replace(headers=(*record.headers, self._header))


@dataclass(frozen=True, kw_only=True)
class HeaderFromSettings(NullSettings):
    """Which fields become which headers."""

    fields: tuple[str, ...] = setting(
        "fields", Kind.LIST, "The fields to copy or move.", (), required=True
    )
    headers: tuple[str, ...] = setting(
        "headers", Kind.LIST, "The headers' names, in the order of the fields.", (), required=True
    )
    operation: str = string(
        "operation",
        "move removes the fields from the record, copy keeps them.",
        required=True,
        choices=("move", "copy"),
    )

    def validate(self) -> dict[str, str]:
        if len(self.fields) == len(self.headers):
            return {}
        return {
            "headers": f"{len(self.fields)} fields need as many headers, not {len(self.headers)}."
        }


class HeaderFrom(PartTransform):
    """Copies or moves fields to headers."""

    settings_class = HeaderFromSettings

    def __init__(self, settings: HeaderFromSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._pairs = list(zip(settings.fields, settings.headers, strict=True))
        self._moves = settings.operation == "move"

    def apply(self, record: R) -> R | None:
        schema, value = self.present(record)
        added: list[Header]
        if schema is None:
            given = self.map_value(value)
            added = [Header(header, given.get(name)) for name, header in self._pairs]
            left: Any = {
                name: item
                for name, item in given.items()
                if not self._moves or name not in self.settings.fields
            }
        else:
            given = self.struct_value(value)
            added = [self._header(schema, given, *pair) for pair in self._pairs]
            left = given
            if self._moves:
                schema = self._derived(schema)
                left = self.field_values(given, schema.fields)
        with_headers = record._replace(headers=(*record.headers, *added))
        return self.replaced(with_headers, schema, left)

    def _header(self, schema: Schema, given: Any, name: str, header: str) -> Header:
        field = schema.field(name)
        if field is None:
            raise PoisonRecord(f"The field {name} of the header {header} does not exist.")
        return Header(header, self.field_value(given, field), field.schema)

    def derive(self, schema: Schema) -> Schema:
        moved, fields = self.settings.fields, self.struct_fields(schema)
        return with_fields(schema, [field for field in fields if field.name not in moved])
