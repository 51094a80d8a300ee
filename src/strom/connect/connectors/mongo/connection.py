"""The connection to MongoDB, for source and sink alike, and the translation of its errors."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError
from pymongo.uri_parser import parse_uri

from strom.connect.api import ConnectError, ConnectorSettings, Importance, RetriableError
from strom.connect.setting_forms import integer, secret, string

_NOT_A_REPLICA_SET = 40573
_HISTORY_LOST = frozenset({286, 280})


@dataclass(frozen=True, kw_only=True)
class MongoSettings(ConnectorSettings):
    uri: str = secret(
        "connection.uri",
        "The connection string, such as mongodb://user:password@host:27017/?replicaSet=rs0.",
        "mongodb://127.0.0.1:27017",
        importance=Importance.HIGH,
    )
    database: str = string("database", "The database.", required=True)
    server_timeout_ms: int = integer(
        "server.selection.timeout.ms", "The timeout for finding a server.", 5000, minimum=100
    )

    def validate(self) -> Mapping[str, str]:
        """The connection string must be valid."""
        if self.uri.startswith("mongodb+srv://"):
            return {}  # parsing it needs a DNS lookup
        try:
            parse_uri(self.uri)
        except (PyMongoError, ValueError) as error:
            return {"connection.uri": f"Invalid connection string: {error}"}
        return {}

    def connect(self) -> MongoClient[dict[str, Any]]:
        """A client; it connects on first use."""
        return MongoClient(self.uri, serverSelectionTimeoutMS=self.server_timeout_ms)


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Translate MongoDB's errors to RetriableError and ConnectError."""
    try:
        yield
    except ConnectionFailure as error:
        raise RetriableError(f"MongoDB is unavailable: {_first_line(error)}") from None
    except OperationFailure as error:
        if error.code == _NOT_A_REPLICA_SET:
            raise ConnectError(
                "Change streams need a replica set: start MongoDB with --replSet, then run "
                "rs.initiate(); one member is enough."
            ) from None
        if error.code in _HISTORY_LOST:
            raise ConnectError(
                "The oplog no longer contains the position of the last delivered change: reset "
                "the connector's "
                "offsets, and set startup.mode=copy_existing to read everything again."
            ) from None
        if error.has_error_label("RetryableWriteError"):
            raise RetriableError(f"MongoDB failed temporarily: {_first_line(error)}") from None
        raise ConnectError(f"MongoDB responded with an error: {_first_line(error)}") from None
    except PyMongoError as error:
        raise ConnectError(f"MongoDB rejected the request: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(", Timeout:")[0]
