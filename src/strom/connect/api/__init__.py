"""The contract for authors of connectors: all they need to import.

A connector is two classes: one that knows its settings and splits the work (`SourceConnector` or
`SinkConnector`), and one that does it (`SourceTask` or `SinkTask`).
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
from strom.connect.api.records import Header, SinkRecord, SourceRecord, TopicPartition
from strom.connect.api.schema import Field, Schema, Type
from strom.connect.api.settings import ConnectorSettings, Importance, Kind, setting

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
