"""Where a database is, in the ways people write it."""

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
    """A text that is no address of a database we know."""


@dataclass(frozen=True)
class Address:
    """A database, and who logs in. Its text never shows the password."""

    kind: str
    host: str = ""
    port: int = 0
    database: str = ""
    """The name; of SQLite the file's path."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ssl: str = "disable"

    def __str__(self) -> str:
        if self.kind == SQLITE:
            return f"SQLite {self.database}"
        return f"PostgreSQL {self.host}:{self.port}/{self.database}"


def parse_address(url: str, user: str | None = None, password: str | None = None) -> Address:
    """Read `jdbc:postgresql://…`, `postgresql://…`, `jdbc:sqlite:…` or `sqlite:///…`."""
    text = url.strip().removeprefix("jdbc:")
    scheme, colon, rest = text.partition(":")
    if colon and scheme == SQLITE:
        path = rest.removeprefix("//") if rest.startswith("//") else rest
        path = path.removeprefix("/") if path.startswith("//") else path
        if not path:
            raise UnknownAddress(f"The address names no file; write for example {EXAMPLES}.")
        return Address(SQLITE, database=unquote(path))
    if colon and scheme in {POSTGRES, "postgres"}:
        return _postgres(text, user, password)
    raise UnknownAddress(f"This is no address of PostgreSQL or SQLite; write {EXAMPLES}.")


def _postgres(text: str, user: str | None, password: str | None) -> Address:
    try:
        parts = urlsplit(text)
        port = parts.port or 5432
    except ValueError:
        raise UnknownAddress(f"The address has no usable port; write {EXAMPLES}.") from None
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
