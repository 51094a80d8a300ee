"""Addresses with gaps that records fill: http://host/customers/{id}/orders."""

import re
from typing import Any
from urllib.parse import quote

from strom.connect.api import SinkRecord

_GAP = re.compile(r"\{([^{}]*)\}")


class UrlTemplate:
    """An address for every record. `{topic}`, `{partition}`, `{offset}`, `{key}`, or a field's name."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._gaps = _GAP.findall(text)

    def problem(self) -> str | None:
        """What is wrong with the template, if anything is."""
        rest = _GAP.sub("", self._text)
        if not self._text.startswith(("http://", "https://")):
            return f"{self._text} is not an address: it begins with http:// or https://."
        if "{" in rest or "}" in rest or "" in self._gaps:
            return f"{self._text} has a brace without its other half, or none in between."
        return None

    def fill(self, record: SinkRecord) -> str:
        """The record's address; ValueError if it lacks what the template asks for."""
        if not self._gaps:
            return self._text
        return _GAP.sub(lambda gap: quote(str(_asked_for(record, gap[1])), safe=""), self._text)


def _asked_for(record: SinkRecord, name: str) -> Any:
    if name in {"topic", "partition", "offset"}:
        return getattr(record, name)
    found = record.key if name == "key" else None
    if isinstance(record.value, dict) and name in record.value:
        found = record.value[name]
    elif isinstance(record.key, dict) and name in record.key:
        found = record.key[name]
    if found is None or found == "" or isinstance(found, dict | list):
        raise ValueError(f"The record has no {name} that could stand in an address")
    return found
