"""How many rows a sink has stored in PostgreSQL, asked again and again."""

import asyncio
from types import TracebackType
from typing import Any, Self

import asyncpg


class PostgresRows:
    """A table's rows; a table that is not there yet has none."""

    def __init__(self, url: str, user: str, table: str) -> None:
        self._url = url
        self._user = user
        self._table = table
        self._loop = asyncio.new_event_loop()
        self._connection: Any = None

    def __enter__(self) -> Self:
        self._connection = self._loop.run_until_complete(
            asyncpg.connect(self._url, user=self._user)
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()

    def stored(self) -> int:
        """The rows that are committed now, by the position that is committed with them.

        To count them every few milliseconds would cost the server more than to store them.
        """
        query = "SELECT max(next_offset) FROM strom_connect_positions WHERE topic = $1"
        try:
            return self._asked(query, self._table) or 0
        except asyncpg.UndefinedTableError:
            return 0

    def count(self) -> int:
        """The rows, counted."""
        return self._asked(f'SELECT count(*) FROM "{self._table}"') or 0  # the name is our own

    def _asked(self, query: str, *given: Any) -> int | None:
        answer: int | None = self._loop.run_until_complete(self._connection.fetchval(query, *given))
        return answer
