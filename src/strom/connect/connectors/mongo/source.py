"""MongoSource: reads a collection and its changes, through a change stream.

With `startup.mode=copy_existing` the documents are read in the order of their ids, then the changes since
before the copy: a document that changed meanwhile is sent again. Keys and values are relaxed extended
JSON.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson import json_util
from bson.timestamp import Timestamp
from pymongo.synchronous.change_stream import ChangeStream

from strom.connect.api import (
    RetriableError,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
)
from strom.connect.api.schema import STRING
from strom.connect.connectors.mongo.connection import MongoSettings, translated_errors
from strom.connect.setting_forms import boolean, choice, integer, string

_SECONDS_BACK = 1
"""If a server does not report its time, changes are read from this long before the local time."""


@dataclass(frozen=True, kw_only=True)
class MongoSourceSettings(MongoSettings):
    collection: str = string("collection", "The collection to read.", required=True)
    topic_prefix: str | None = string(
        "topic.prefix", "The topic is PREFIX.DATABASE.COLLECTION. [no prefix]"
    )
    startup_mode: str = choice(
        "startup.mode",
        "Where to start: at new changes, or with a copy of all existing documents.",
        ("latest", "copy_existing"),
    )
    document_only: bool = boolean(
        "publish.full.document.only",
        "Send only the document (a tombstone for a deleted one) instead of the change event.",
    )
    full_document: str = choice(
        "change.stream.full.document",
        "What the change event of an update contains of the document.",
        ("default", "updateLookup", "whenAvailable", "required"),
        "updateLookup",
    )
    batch_size: int = integer("poll.max.batch.size", "The maximum number of events per poll.", 1000)
    await_ms: int = integer(
        "poll.await.time.ms", "The maximum time to wait for an event.", 500, maximum=1000
    )

    @property
    def topic(self) -> str:
        parts = (self.topic_prefix, self.database, self.collection)
        return ".".join(part for part in parts if part)


class MongoSourceTask(SourceTask[MongoSourceSettings]):
    def __init__(self, settings: MongoSourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._client = settings.connect()
        self._partition = {"ns": f"{settings.database}.{settings.collection}"}
        self._stream: ChangeStream[dict[str, Any]] | None = None
        self._position: dict[str, Any] = {}

    def start(self) -> None:
        """Find the position to start from."""
        stored = self.context.offset(self._partition)
        if stored is not None:
            self._position = dict(stored)
            return
        with translated_errors():
            began = self._server_time()
        self._position = {"at": [began.time, began.inc]}
        if self.settings.startup_mode == "copy_existing":
            self._position["copied"] = None

    def poll(self) -> Sequence[SourceRecord]:
        """The next documents of the copy, or the next changes."""
        before = self._position
        try:
            with translated_errors():
                if "copied" in self._position:
                    copied = self._copy()
                    if copied:
                        return copied
                    self._position = {"at": self._position["at"]}
                return self._changes()
        except RetriableError:
            # Records read before the failure were not returned, so they are read again.
            if self._position != before:
                self._position = before
                self._close_stream()
            raise

    def stop(self) -> None:
        self._close_stream()
        self._client.close()

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _copy(self) -> list[SourceRecord]:
        last = self._position["copied"]
        after = {} if last is None else {"_id": {"$gt": json_util.loads(last)}}
        collection = self._client[self.settings.database][self.settings.collection]
        documents = collection.find(after).sort("_id", 1).limit(self.settings.batch_size)
        return [self._copied(document) for document in documents]

    def _copied(self, document: dict[str, Any]) -> SourceRecord:
        self._position = self._position | {"copied": _json(document["_id"])}
        if self.settings.document_only:
            value = _json(document)
        else:
            value = _json(
                {
                    "operationType": "copy",
                    "fullDocument": document,
                    "documentKey": {"_id": document["_id"]},
                    "ns": {"db": self.settings.database, "coll": self.settings.collection},
                }
            )
        return self._record({"_id": document["_id"]}, value)

    def _changes(self) -> list[SourceRecord]:
        if self._stream is None:
            self._stream = self._open_stream()
        records: list[SourceRecord] = []
        while len(records) < self.settings.batch_size:
            event = self._stream.try_next()
            if event is None:
                break
            self._position = {"token": dict(event["_id"])}
            if "documentKey" in event:
                records.append(self._record(event["documentKey"], self._value(event)))
        return records

    def _open_stream(self) -> ChangeStream[dict[str, Any]]:
        collection = self._client[self.settings.database][self.settings.collection]
        where: dict[str, Any] = (
            {"resume_after": self._position["token"]}
            if "token" in self._position
            else {"start_at_operation_time": Timestamp(*self._position["at"])}
        )
        return collection.watch(
            full_document=self.settings.full_document,
            max_await_time_ms=self.settings.await_ms,
            batch_size=self.settings.batch_size,
            **where,
        )

    def _value(self, event: Mapping[str, Any]) -> str | None:
        if not self.settings.document_only:
            return _json(event)
        document = event.get("fullDocument")
        return None if document is None else _json(document)

    def _record(self, key: Mapping[str, Any], value: str | None) -> SourceRecord:
        return SourceRecord(
            self._partition,
            self._position,
            self.settings.topic,
            value,
            STRING if value is not None else None,
            _json(key),
            STRING,
        )

    def _server_time(self) -> Timestamp:
        told = self._client.admin.command("ping").get("operationTime")
        if isinstance(told, Timestamp):
            return told
        return Timestamp(int(time.time()) - _SECONDS_BACK, 0)


class MongoSource(SourceConnector[MongoSourceSettings]):
    """Changes of a MongoDB collection."""

    settings_class = MongoSourceSettings
    task_class = MongoSourceTask


def _json(value: Any) -> str:
    return json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS)
