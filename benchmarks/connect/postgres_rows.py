"""How many rows a table of PostgreSQL has, asked again and again."""

import asyncio
from types import TracebackType
from typing import Any, Self

import asyncpg


class PostgresRows:
    """Counts a table's rows; a table that is not there yet has none."""

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

    def count(self) -> int:
        """The rows that are committed now."""
        query = f'SELECT count(*) FROM "{self._table}"'  # the name is our own
        try:
            return int(self._loop.run_until_complete(self._connection.fetchval(query)))
        except asyncpg.UndefinedTableError:
            return 0
