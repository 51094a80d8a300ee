"""The ids of the schemas that are not deleted, from the records of the topic `_schemas`.

Schemas themselves are ignored. The records are JSON, written by the registry (`strom.registry.records`,
or Confluent's).
"""

import json
from typing import Any

SubjectVersion = tuple[str, int]


class KnownIds:
    """The ids that at least one version uses that is not deleted."""

    def __init__(self) -> None:
        self._ids: dict[SubjectVersion, int] = {}
        self._uses: dict[int, int] = {}

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self._uses

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record of the topic; malformed ones are ignored."""
        try:
            parsed_key = json.loads(key or b"null")
            content = None if value is None else json.loads(value)
            self._apply(parsed_key, content)
        except (ValueError, TypeError, KeyError, AttributeError):
            return

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        if key["keytype"] == "SCHEMA":
            version = (str(key["subject"]), int(key["version"]))
            self._remove(version)
            if value is not None and not value.get("deleted"):
                schema_id = int(value["id"])
                self._ids[version] = schema_id
                self._uses[schema_id] = self._uses.get(schema_id, 0) + 1
        elif key["keytype"] == "DELETE_SUBJECT" and value is not None:
            last = int(value["version"])
            for version in [
                one for one in self._ids if one[0] == key["subject"] and one[1] <= last
            ]:
                self._remove(version)

    def _remove(self, version: SubjectVersion) -> None:
        schema_id = self._ids.pop(version, None)
        if schema_id is not None:
            self._uses[schema_id] -= 1
            if not self._uses[schema_id]:
                del self._uses[schema_id]
