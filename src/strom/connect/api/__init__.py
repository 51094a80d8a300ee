"""The API for authors of connectors: everything they import.

A connector is two classes: one that declares the settings and splits the work into tasks
(`SourceConnector` or `SinkConnector`), and one that does the work (`SourceTask` or `SinkTask`).
"""

from strom.connect.api.connectors import (
    Connector,
    SinkConnector,
    SinkContext,
    SinkTask,
    SourceConnector,
    SourceContext,
    SourceTask,
)
from strom.connect.api.errors import (
    ConnectError,
    InvalidSettings,
    PoisonRecord,
    RetriableError,
)
from strom.connect.api.positions import StoredPosition, resumed_position
from strom.connect.api.record_batches import RecordBatch, record_batches
from strom.connect.api.records import Header, SinkRecord, SourceRecord
from strom.connect.api.schema import Field, Schema, Type
from strom.connect.api.settings import ConnectorSettings, Importance, Kind, setting
from strom.model.topics import TopicPartition

__all__ = [
    "ConnectError",
    "Connector",
    "ConnectorSettings",
    "Field",
    "Header",
    "Importance",
    "InvalidSettings",
    "Kind",
    "PoisonRecord",
    "RecordBatch",
    "RetriableError",
    "Schema",
    "SinkConnector",
    "SinkContext",
    "SinkRecord",
    "SinkTask",
    "SourceConnector",
    "SourceContext",
    "SourceRecord",
    "SourceTask",
    "StoredPosition",
    "TopicPartition",
    "Type",
    "record_batches",
    "resumed_position",
    "setting",
]
