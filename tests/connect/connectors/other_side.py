"""Databases as tests see them: made anew, filled and read without strom's help."""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from tools.postgres import RealPostgres


class PostgresSide:
    """The shared server's database, emptied."""

    conflicts = (
        asyncpg.SerializationError,
        asyncpg.DeadlockDetectedError,
        asyncpg.UniqueViolationError,
    )

    def __init__(self, server: RealPostgres) -> None:
        self.server = server
        self.run("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public;")
        for (name,) in self.run("SELECT quote_ident(pubname) FROM pg_publication"):
            self.run(f"DROP PUBLICATION {name};")
        self.drop_slots()

    def drop_slots(self) -> None:
        """Let go of what readers before have left."""
        self.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        for _ in range(100):
            if not self.run("SELECT 1 FROM pg_replication_slots WHERE active"):
                break
            time.sleep(0.05)
        self.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")

    @property
    def change_settings(self) -> dict[str, str]:
        """The database, in the words of change capture."""
        return {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": self.server.user,
            "database.password": self.server.password,
            "database.dbname": self.server.database,
            "topic.prefix": "shop",
        }

    @property
    def settings(self) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self.server.port}/{self.server.database}",
            "connection.user": self.server.user,
            "connection.password": self.server.password,
        }

    def connect(self) -> Any:
        """A connection for use within an event loop."""
        return asyncpg.connect(
            host="127.0.0.1",
            port=self.server.port,
            user=self.server.user,
            password=self.server.password,
            database=self.server.database,
        )

    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement, or several that end with semicolons; its rows."""

        async def run() -> list[tuple[Any, ...]]:
            connection = await self.connect()
            try:
                if ";" in statement:
                    await connection.execute(statement)
                    return []
                return [tuple(row) for row in await connection.fetch(statement, *parameters)]
            finally:
                await connection.close()

        return asyncio.run(run())


class SqliteSide:
    """A file of one's own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "side.db"

    @property
    def settings(self) -> dict[str, str]:
        return {"connection.url": f"jdbc:sqlite:{self.path}"}

    def run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            if ";" in statement:
                connection.executescript(statement)
                return []
            rows: Sequence[tuple[Any, ...]] = connection.execute(statement, parameters).fetchall()
            connection.commit()
            return list(rows)
        finally:
            connection.close()


Side = PostgresSide | SqliteSide
