"""Settings defined once: name, type, default, bounds and text.

Validation, DescribeConfigs, the command line's help and `docs/reference/` are all derived from the
dataclass fields below. A field made by `setting(...)` *is* the definition.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from strom.model.errors import ApiError, ErrorCode, UserError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
HIDDEN = "[hidden]"
"""Stands for the value of a PASSWORD setting, as in Kafka's own texts."""
_UNITS = {
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_DURATION = re.compile(r"\s*(\d+)\s+([a-z]+?)s?\s*", re.IGNORECASE)


class Kind(Enum):
    """The type of a setting; the value is Kafka's number for it in DescribeConfigs, if Kafka has it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9
    # strom's own types, of settings that Kafka clients do not see.
    DURATION = 100
    """Seconds, written as `10 seconds`."""
    TABLE = 101
    """Strings by name."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The definition of one setting."""

    name: str
    kind: Kind
    default: Any
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    broker_name: str | None = None
    """The broker setting that gives a topic or group its default, as in `log.retention.ms`."""
    live: bool = True
    """Whether it can be changed for a broker while it runs."""

    def parse(self, text: str) -> Any:
        """Parse a client's text; raise INVALID_CONFIG with the allowed values."""
        try:
            value = _PARSERS[self.kind](text.strip())
        except ValueError:
            raise self._invalid(text, f"is {_NOT_A[self.kind]}") from None
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Raise INVALID_CONFIG unless the value lies within the bounds."""
        limit = _LARGEST.get(self.kind)
        if limit is not None and not -limit - 1 <= value <= limit:
            raise self._invalid(value, f"is not of type {self.kind.name.lower()}")
        if self.minimum is not None and value < self.minimum:
            raise self._invalid(value, f"must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise self._invalid(value, f"must be at most {self.maximum}")
        if self.choices:
            chosen = value if self.kind is Kind.LIST else (value,)
            wrong = [item for item in chosen if item not in self.choices]
            if wrong:
                raise self._invalid(value, f"must be one of {', '.join(self.choices)}")

    @property
    def is_secret(self) -> bool:
        """Whether its value must never be shown."""
        return self.kind is Kind.PASSWORD

    def render(self, value: Any) -> str:
        """The value as text for users and clients; a secret is masked."""
        return HIDDEN if self.is_secret else self._text(value)

    @property
    def documented_default(self) -> str:
        """The default as text; that of a password is documented, so it is not masked."""
        return self._text(self.default)

    def _text(self, value: Any) -> str:
        if self.kind is Kind.BOOLEAN:
            return "true" if value else "false"
        if self.kind is Kind.LIST:
            return ",".join(value)
        if self.kind is Kind.DURATION:
            return f"{value:g} seconds"
        return str(value)

    def _invalid(self, value: object, reason: str) -> ApiError:
        shown = value
        if self.is_secret:
            shown = HIDDEN
        elif isinstance(value, tuple):
            shown = ",".join(value)
        return ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {shown} for configuration {self.name}: it {reason}.",
        )


def parse_duration(text: str) -> int:
    """Parse a text like `5 minutes` to microseconds; UserError if it is not a duration."""
    found = _DURATION.fullmatch(text)
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None or int(found[1]) == 0:
        raise UserError(f"{text!r} is not a duration. Examples: 10 seconds, 1 minute, 2 hours")
    return int(found[1]) * unit


def _parse_seconds(text: str) -> float:
    try:
        return parse_duration(text) / 1_000_000
    except UserError:
        raise ValueError(text) from None


def _parse_boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))


_PARSERS: dict[Kind, Any] = {
    Kind.BOOLEAN: _parse_boolean,
    Kind.STRING: str,
    Kind.INT: int,
    Kind.LONG: int,
    Kind.DOUBLE: float,
    Kind.LIST: _parse_list,
    Kind.PASSWORD: str,
    Kind.DURATION: _parse_seconds,
}
_NOT_A = {
    Kind.BOOLEAN: "neither true nor false",
    Kind.INT: "not a whole number",
    Kind.LONG: "not a whole number",
    Kind.DOUBLE: "not a number",
    Kind.DURATION: "not a duration like 10 seconds, 1 minute or 2 hours",
}
_LARGEST = {Kind.INT: INT_MAX, Kind.LONG: LONG_MAX}


def setting(name: str, kind: Kind, default: Any, doc: str, **more: Any) -> Any:
    """Declare a dataclass field together with its definition."""
    definition = Definition(name=name, kind=kind, default=default, doc=doc, **more)
    metadata = {"definition": definition}
    if kind is Kind.TABLE:  # it may hold secrets by names that are unknown here
        return dataclasses.field(default_factory=dict, metadata=metadata, repr=False)
    return dataclasses.field(default=default, metadata=metadata, repr=not definition.is_secret)


_KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    str: Kind.STRING,
    int: Kind.INT,
    float: Kind.DOUBLE,
    tuple: Kind.LIST,
}


def dynamic(name: str, default: Any, doc: str, *, kind: Kind | None = None, **more: Any) -> Any:
    """Declare a setting that can be changed while a broker runs; the default implies its kind."""
    return setting(name, kind or _KINDS[type(default)], default, doc, **more)


def static(name: str, default: Any, doc: str, *, kind: Kind | None = None, **more: Any) -> Any:
    """Declare a setting that a broker reads when it starts; the default implies its kind."""
    return dynamic(name, default, doc, kind=kind, live=False, **more)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base class of settings dataclasses, with access by Kafka's names."""

    @classmethod
    def definitions(cls) -> Mapping[str, Definition]:
        """The definitions of this class, by name."""
        return {name: definition for name, (_, definition) in declared(cls).items()}

    @classmethod
    def definition(cls, name: str) -> Definition:
        """The definition of that name; INVALID_CONFIG if there is none."""
        try:
            return declared(cls)[name][1]
        except KeyError:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown configuration {name}.") from None

    def override(self, texts: Mapping[str, str]) -> Self:
        """A copy with the given settings parsed from text; INVALID_CONFIG if one is invalid."""
        values = {name: self.definition(name).parse(text) for name, text in texts.items()}
        fields = declared(type(self))
        return dataclasses.replace(self, **{fields[name][0]: values[name] for name in values})

    def value(self, name: str) -> Any:
        self.definition(name)
        return getattr(self, declared(type(self))[name][0])

    def items(self) -> Iterator[tuple[Definition, Any]]:
        """Every definition with its value."""
        for name, definition in self.definitions().items():
            yield definition, self.value(name)


_declared: dict[type, dict[str, tuple[str, Definition]]] = {}


def declared(cls: type[Settings]) -> dict[str, tuple[str, Definition]]:
    """The settings that a dataclass declares with `setting(...)`: name → (field, definition)."""
    found = _declared.get(cls)
    if found is None:
        found = _declared[cls] = {
            field.metadata["definition"].name: (field.name, field.metadata["definition"])
            for field in dataclasses.fields(cls)
            if "definition" in field.metadata
        }
    return found
