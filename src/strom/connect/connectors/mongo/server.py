"""The connection to MongoDB, and the translation of its errors."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from strom.connect.api import ConnectError, RetriableError
from strom.connect.connectors.mongo.settings import MongoSettings

if TYPE_CHECKING:
    from pymongo import MongoClient

_NOT_A_REPLICA_SET = 40573
_HISTORY_LOST = frozenset({286, 280})


def connect(settings: MongoSettings) -> "MongoClient[dict[str, Any]]":
    """A client; it connects on first use."""
    from pymongo import MongoClient

    return MongoClient(settings.uri, serverSelectionTimeoutMS=settings.server_timeout_ms)


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Translate MongoDB's errors to RetriableError and ConnectError."""
    from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

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
