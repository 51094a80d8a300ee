"""Talking to MongoDB, with its errors in our words."""

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
    """A client; it connects when it is first used."""
    from pymongo import MongoClient

    return MongoClient(settings.uri, serverSelectionTimeoutMS=settings.server_timeout_ms)


@contextlib.contextmanager
def in_plain_words() -> Iterator[None]:
    """What to do about an error of MongoDB's: wait, or tell the user."""
    from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

    try:
        yield
    except ConnectionFailure as error:
        raise RetriableError(f"MongoDB is away: {_first_line(error)}") from None
    except OperationFailure as error:
        if error.code == _NOT_A_REPLICA_SET:
            raise ConnectError(
                "MongoDB has change streams only in a replica set: start it with --replSet, then "
                "rs.initiate(); one member is enough."
            ) from None
        if error.code in _HISTORY_LOST:
            raise ConnectError(
                "MongoDB no longer has the changes since the last delivered one: reset the connector's "
                "offsets, and set startup.mode=copy_existing to read everything again."
            ) from None
        if error.has_error_label("RetryableWriteError"):
            raise RetriableError(f"MongoDB could not do it now: {_first_line(error)}") from None
        raise ConnectError(f"MongoDB refused: {_first_line(error)}") from None
    except PyMongoError as error:
        raise ConnectError(f"MongoDB refused: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(", Timeout:")[0]
