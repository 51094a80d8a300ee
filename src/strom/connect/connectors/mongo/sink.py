"""MongoSink: writes records as documents, idempotently."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bson.decimal128 import Decimal128
from bson.errors import InvalidDocument
from pymongo import DeleteOne, ReplaceOne
from pymongo.errors import BulkWriteError, DocumentTooLarge

from strom.connect.api import PoisonRecord, SinkConnector, SinkContext, SinkRecord, SinkTask
from strom.connect.connectors.mongo.connection import MongoSettings, translated_errors
from strom.connect.setting_forms import boolean, choice, integer, string

Write = ReplaceOne[dict[str, Any]] | DeleteOne
_LARGEST_INTEGER = 2**63


@dataclass(frozen=True, kw_only=True)
class MongoSinkSettings(MongoSettings):
    collection: str = string(
        "collection", "The collection; ${topic} is the record's topic.", "${topic}"
    )
    id_from: str = choice(
        "document.id.from",
        "The source of a document's _id: the record's key, a field of its value (document.id.field), or "
        "topic, partition and offset.",
        ("key", "field", "place"),
    )
    id_field: str = string("document.id.field", "The field for document.id.from=field.", "_id")
    delete_on_null: bool = boolean(
        "delete.on.null.values", "Delete the document when a record has no value."
    )
    batch_size: int = integer("max.batch.size", "The maximum number of documents per write.", 1000)

    def validate(self) -> Mapping[str, str]:
        """Deleting documents needs keys."""
        if self.delete_on_null and self.id_from != "key":
            return {
                "delete.on.null.values": "A record without a value identifies its "
                "document by its key: set document.id.from=key."
            }
        return super().validate()


class MongoSinkTask(SinkTask[MongoSinkSettings]):
    """Replaces documents by their ids."""

    def __init__(self, settings: MongoSinkSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._client = settings.connect()

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write the documents; returns when the server has acknowledged them."""
        writes: dict[str, list[tuple[int, Write]]] = {}
        for index, record in enumerate(records):
            write = self._write(index, record)
            if write is not None:
                name = self.settings.collection.replace("${topic}", record.topic)
                writes.setdefault(name, []).append((index, write))
        for name, indexed in writes.items():
            for start in range(0, len(indexed), self.settings.batch_size):
                self._send(name, indexed[start : start + self.settings.batch_size])

    def stop(self) -> None:
        self._client.close()

    def _write(self, index: int, record: SinkRecord) -> Write | None:
        if record.value is None:
            if not self.settings.delete_on_null:
                return None
            return DeleteOne({"_id": self._id(index, record, {})})
        value = to_document(record.value)
        document = dict(value) if isinstance(value, dict) else {"value": value}
        chosen = self._id(index, record, document)
        document.pop("_id", None)
        return ReplaceOne({"_id": chosen}, {"_id": chosen, **document}, upsert=True)

    def _id(self, index: int, record: SinkRecord, document: dict[str, Any]) -> Any:
        if self.settings.id_from == "place":
            topic, partition = record.origin
            return f"{topic}-{partition}-{record.offset}"
        if self.settings.id_from == "field":
            chosen = document.get(self.settings.id_field)
            if chosen is None:
                raise PoisonRecord(
                    f"The value has no field {self.settings.id_field} (document.id.field).", index
                )
            return chosen
        if record.key is None:
            raise PoisonRecord("The record has no key (document.id.from=key).", index)
        return to_document(record.key)

    def _send(self, name: str, indexed: list[tuple[int, Write]]) -> None:
        collection = self._client[self.settings.database][name]
        with translated_errors():
            try:
                collection.bulk_write([write for _, write in indexed], ordered=True)
            except BulkWriteError as error:
                wrong = (error.details or {}).get("writeErrors") or []
                if not wrong:
                    raise
                index = indexed[wrong[0]["index"]][0]
                raise PoisonRecord(
                    f"MongoDB rejected the document: {wrong[0]['errmsg']}", index
                ) from None
            except (InvalidDocument, DocumentTooLarge, OverflowError) as error:
                if len(indexed) > 1:
                    for one in indexed:
                        self._send(name, [one])
                    return
                raise PoisonRecord(
                    f"The value cannot be stored as a document: {error}", indexed[0][0]
                ) from None


class MongoSink(SinkConnector[MongoSinkSettings]):
    """Records as MongoDB documents."""

    settings_class = MongoSinkSettings
    task_class = MongoSinkTask


def to_document(value: Any) -> Any:
    """A Connect value as a BSON value: decimals, dates and large integers have their own types."""
    if isinstance(value, dict):
        return {str(name): to_document(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_document(item) for item in value]
    if isinstance(value, Decimal):
        return Decimal128(value)
    if isinstance(value, dt.time):
        return value.isoformat()
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
    if isinstance(value, int) and abs(value) >= _LARGEST_INTEGER:
        return Decimal128(str(value))
    return value
