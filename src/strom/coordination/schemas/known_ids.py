"""The ids of schemas that live, from the records of the topic `_schemas`.

What the schemas say is not looked at. The records are JSON; the registry writes them
(`strom.registry.records`, or Confluent's).
"""

import json
from typing import Any

Place = tuple[str, int]
"""Subject and version."""


class KnownIds:
    """Which ids are those of a version that is not deleted."""

    def __init__(self) -> None:
        self._ids: dict[Place, int] = {}
        self._uses: dict[int, int] = {}

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self._uses

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Let a record of the topic happen; what is not understood is left alone."""
        try:
            place = json.loads(key or b"null")
            content = None if value is None else json.loads(value)
            self._apply(place, content)
        except (ValueError, TypeError, KeyError, AttributeError):
            return

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        if key["keytype"] == "SCHEMA":
            place = (str(key["subject"]), int(key["version"]))
            self._forget(place)
            if value is not None and not value.get("deleted"):
                schema_id = int(value["id"])
                self._ids[place] = schema_id
                self._uses[schema_id] = self._uses.get(schema_id, 0) + 1
        elif key["keytype"] == "DELETE_SUBJECT" and value is not None:
            last = int(value["version"])
            for place in [one for one in self._ids if one[0] == key["subject"] and one[1] <= last]:
                self._forget(place)

    def _forget(self, place: Place) -> None:
        schema_id = self._ids.pop(place, None)
        if schema_id is not None:
            self._uses[schema_id] -= 1
            if not self._uses[schema_id]:
                del self._uses[schema_id]
