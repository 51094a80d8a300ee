"""Parses the URLs of databases."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from strom.connect.api import ConnectError

POSTGRES: Final = "postgresql"
SQLITE: Final = "sqlite"
EXAMPLES: Final = (
    "jdbc:postgresql://host:5432/database, postgresql://host/database or jdbc:sqlite:/path"
)


class UnknownAddress(ConnectError):
    """The URL is not one of a supported database."""


@dataclass(frozen=True)
class Address:
    """A database and its credentials. Its text never contains the password."""

    kind: str
    host: str = ""
    port: int = 0
    database: str = ""
    """The name of the database; for SQLite the path of the file."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ssl: str = "disable"

    def __str__(self) -> str:
        if self.kind == SQLITE:
            return f"SQLite {self.database}"
        return f"PostgreSQL {self.host}:{self.port}/{self.database}"


def parse_address(url: str, user: str | None = None, password: str | None = None) -> Address:
    """Parse `jdbc:postgresql://…`, `postgresql://…`, `jdbc:sqlite:…` or `sqlite:///…`."""
    text = url.strip().removeprefix("jdbc:")
    scheme, colon, rest = text.partition(":")
    if colon and scheme == SQLITE:
        path = rest.removeprefix("//") if rest.startswith("//") else rest
        path = path.removeprefix("/") if path.startswith("//") else path
        if not path:
            raise UnknownAddress(f"The URL has no file; use for example {EXAMPLES}.")
        return Address(SQLITE, database=unquote(path))
    if colon and scheme in {POSTGRES, "postgres"}:
        return _postgres(text, user, password)
    raise UnknownAddress(f"Not a URL of PostgreSQL or SQLite; use {EXAMPLES}.")


def _postgres(text: str, user: str | None, password: str | None) -> Address:
    try:
        parts = urlsplit(text)
        port = parts.port or 5432
    except ValueError:
        raise UnknownAddress(f"The URL has an invalid port; use {EXAMPLES}.") from None
    options = dict(parse_qsl(parts.query))
    name = unquote(parts.path.removeprefix("/"))
    user = user or options.get("user") or (unquote(parts.username) if parts.username else None)
    return Address(
        POSTGRES,
        parts.hostname or "localhost",
        port,
        name or user or "postgres",
        user,
        password
        or options.get("password")
        or (unquote(parts.password) if parts.password else None),
        options.get("sslmode", "disable" if options.get("ssl", "false") == "false" else "require"),
    )
