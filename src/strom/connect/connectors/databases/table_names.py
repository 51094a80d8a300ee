"""Table names in settings: `orders`, `shop.orders`, `"odd, name"`, `shop."a.b"`.

Names are case-sensitive, with or without quotes. A part that contains a comma, a dot or a quote, or is
surrounded by blanks, is written in double quotes; a quote in it is doubled.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from strom.connect.api import ConnectError, Importance, Kind
from strom.connect.api.settings import SettingDefinition
from strom.connect.connectors.databases.connection_settings import did_you_mean
from strom.connect.connectors.databases.dialect import TableId


class UnclosedQuote(ValueError):
    """A quoted name that is not closed."""


@dataclass(frozen=True, kw_only=True)
class TableListDefinition(SettingDefinition):
    """A list whose items may be quoted, so that they can contain commas."""

    def parse(self, text: str) -> tuple[str, ...]:
        """The items as written, including quotes."""
        try:
            items = [item.strip() for item in _split(text, ",")]
        except UnclosedQuote:
            raise self._invalid(text, 'contains a quoted name that is not closed by "') from None
        return tuple(dict.fromkeys(item for item in items if item))


def tables_setting(name: str, doc: str, *, importance: Importance = Importance.MEDIUM) -> Any:
    """Declare a setting that lists tables; empty by default."""
    definition = TableListDefinition(
        name=name, kind=Kind.LIST, default=(), doc=doc, importance=importance
    )
    return dataclasses.field(default=(), metadata={"definition": definition})


def name_parts(text: str) -> tuple[str, ...]:
    """The parts between dots outside quotes, unquoted; UnclosedQuote if a quote is not closed."""
    parts = [part.strip() for part in _split(text, ".")]
    return tuple(
        part[1:-1].replace('""', '"') if part.startswith('"') and part.endswith('"') else part
        for part in parts
    )


def written_name(table: TableId) -> str:
    """The table's full name as `name_parts` parses it; unique per table."""
    return ".".join(_quoted(part) for part in (table.schema, table.name) if part is not None)


def _quoted(part: str) -> str:
    plain = part == part.strip() and not any(letter in part for letter in '",.')
    return part if plain and part else '"' + part.replace('"', '""') + '"'


def _split(text: str, separator: str) -> list[str]:
    """The pieces between separators outside quotes. A quote counts only at the start of a name."""
    pieces: list[str] = []
    start = at = 0
    begins = True
    while at < len(text):
        letter = text[at]
        if letter == '"' and begins:
            at = _end_of_quotes(text, at)
            begins = False
            continue
        if letter == separator:
            pieces.append(text[start:at])
            start = at + 1
        begins = letter in ",." or (begins and letter.isspace())
        at += 1
    return [*pieces, text[start:]]


def _end_of_quotes(text: str, at: int) -> int:
    while (at := text.find('"', at + 1)) >= 0:
        if not text.startswith('""', at):
            return at + 1
        at += 1
    raise UnclosedQuote(text)


def find_table(text: str, tables: Sequence[TableId]) -> TableId | None:
    """The table of a name; ConnectError if it is ambiguous, None if there is none.

    A name with two readings is first read as schema and table, then literally.
    """
    for means in _MEANINGS:
        found = [table for table in tables if means(text, table)]
        if len(found) > 1:
            names = ", ".join(written_name(table) for table in found)
            raise ConnectError(
                f"The table name {text} is ambiguous: {names}. Add the schema to the name."
            )
        if found:
            return found[0]
    return None


def names_table(text: str, table: TableId) -> bool:
    """Whether a text is a name of this table, with or without its schema."""
    return any(means(text, table) for means in _MEANINGS)


_MEANINGS: Sequence[Callable[[str, TableId], bool]] = (
    lambda text, table: name_parts(text) == tuple(part for part in table if part is not None),
    lambda text, table: text == str(table),
    lambda text, table: text == table.name or name_parts(text) == (table.name,),
)


def missing_table(text: str, tables: Sequence[TableId]) -> ConnectError:
    """The error for a table that does not exist."""
    known = [table.name for table in tables] + [written_name(table) for table in tables]
    return ConnectError(
        f"The table {text} does not exist.{did_you_mean(text, dict.fromkeys(known))}"
    )
