"""A connection to PostgreSQL through asyncpg: every task has its own event loop and waits in it."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from strom.connect.api import ConnectError, RetriableError
from strom.connect.connectors.databases.address import Address
from strom.connect.connectors.databases.dialect import Database, RejectedRows, Row
from strom.connect.connectors.databases.postgres_types import SESSION

T = TypeVar("T")

_CONNECT_TIMEOUT_S: Final = 10
_CLOSE_TIMEOUT_S: Final = 2
_AWAY: Final = ("08", "57P", "53", "40", "55P03", "55006", "25006")
"""Classes of retriable error codes: connection, shutdown, resources, conflicts."""
_WRONG_DATA: Final = ("21", "22", "23")
"""Classes of error codes for rejected rows: duplicate keys, invalid values, constraints."""


class PostgresSession(Database):
    """Connects, runs statements in transactions, and translates errors."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._runner: asyncio.Runner | None = None
        self._connection: Any = None

    def open(self) -> None:
        """Connect; RetriableError if the server is unavailable."""
        if self._connection is not None and not self._connection.is_closed():
            return
        self._runner = self._runner or asyncio.Runner()
        address = self._address
        self._connection = self._run(
            lambda: asyncpg.connect(
                host=address.host,
                port=address.port,
                database=address.database,
                user=address.user,
                password=address.password,
                ssl=address.ssl,
                timeout=_CONNECT_TIMEOUT_S,
                server_settings=dict(SESSION),
                # Statements are few and long-lived, but a table's columns may change meanwhile.
                statement_cache_size=0,
            )
        )

    def close(self) -> None:
        if self._connection is not None:
            # The connection must be gone; if the server is unavailable, it cannot end cleanly.
            with contextlib.suppress(ConnectError):
                self._run(lambda: self._connection.close(timeout=_CLOSE_TIMEOUT_S))
            self._connection = None
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _run(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end, and translate its errors."""
        if self._runner is None:
            raise RetriableError(f"{self._address} is not connected.")

        async def run() -> T:
            return await call()

        try:
            return self._runner.run(run())
        except asyncpg.PostgresError as error:
            raise self._translated(error) from error
        except (
            asyncpg.InterfaceError,
            OSError,
            TimeoutError,
            asyncpg.InternalClientError,
        ) as error:
            if isinstance(error, ValueError):
                raise RejectedRows(str(error)) from error
            raise RetriableError(f"{self._address} is unavailable: {error}") from error
        except (ValueError, OverflowError, TypeError) as error:
            raise RejectedRows(str(error)) from error

    def _translated(self, error: Any) -> ConnectError:
        code = error.sqlstate or ""
        text = str(error) + (f" ({error.detail})" if getattr(error, "detail", None) else "")
        if code.startswith(_WRONG_DATA):
            return RejectedRows(text)
        if code.startswith(_AWAY):
            return RetriableError(f"{self._address}: {text}")
        return ConnectError(f"{self._address} responded: {text}")

    def read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        rows: list[Row] = self._run(lambda: self._connection.fetch(statement, *parameters))
        return rows

    def begin_reading(self, snapshot: str | None = None) -> None:
        """Start a read-only snapshot (an exported one, or the current) that lasts until `rollback`."""
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if snapshot:
            self.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")

    def begin(self) -> None:
        self.open()
        self.execute("BEGIN")

    def rollback(self) -> None:
        """Roll back, or close the connection if that fails."""
        if self._connection is None or self._connection.is_closed():
            return
        try:
            self.execute("ROLLBACK")
        except ConnectError:
            self._connection.terminate()

    def execute(self, statement: str) -> None:
        self._run(lambda: self._connection.execute(statement))

    def execute_many(self, statement: str, rows: Sequence[Row]) -> None:
        """Run the statement for each row, pipelined."""
        self._run(lambda: self._connection.executemany(statement, rows))

    def copy_rows(
        self, name: str, columns: Sequence[str], rows: Sequence[Row], schema: str | None = None
    ) -> None:
        """Insert rows by COPY; their types must be those of the table's columns."""
        self._run(
            lambda: self._connection.copy_records_to_table(
                name, schema_name=schema, columns=columns, records=rows
            )
        )
