"""Templates that records fill in: a URL http://host/customers/{id}, a routing key de.{city}."""

import re
from collections.abc import Callable
from typing import Any

from strom.connect.api import SinkRecord

GAP = re.compile(r"\{([^{}]*)\}")
"""A placeholder in braces."""


def _as_text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class RecordTemplate:
    """Placeholders are `{topic}`, `{partition}`, `{offset}`, `{key}`, and the names of fields."""

    def __init__(self, text: str, quote: Callable[[str | bytes], str] = _as_text) -> None:
        """`quote` escapes the inserted values."""
        self._text = text
        self._gaps = GAP.findall(text)
        self._quote = quote

    def problem(self) -> str | None:
        """Why the template is invalid, or None."""
        rest = GAP.sub("", self._text)
        if "{" in rest or "}" in rest or "" in self._gaps:
            return f"{self._text} has unbalanced or empty braces."
        return None

    def fill(self, record: SinkRecord) -> str:
        """The text for a record; ValueError if the record lacks a value for a placeholder."""
        if not self._gaps:
            return self._text
        return GAP.sub(lambda gap: self._filled(record, gap[1]), self._text)

    def _filled(self, record: SinkRecord, name: str) -> str:
        value = _asked_for(record, name)
        try:
            return self._quote(value if isinstance(value, bytes) else str(value))
        except UnicodeEncodeError as error:
            raise ValueError(f"The record's {name} is not Unicode text: {error.reason}") from None


def _asked_for(record: SinkRecord, name: str) -> Any:
    if name in {"topic", "partition", "offset"}:
        return getattr(record, name)
    found = record.key if name == "key" else None
    if isinstance(record.value, dict) and name in record.value:
        found = record.value[name]
    elif isinstance(record.key, dict) and name in record.key:
        found = record.key[name]
    if found is None or found in ("", b"") or isinstance(found, dict | list):
        raise ValueError(f"The record has no value for the placeholder {{{name}}}")
    return found
