"""Names of tables: patterns that select them, and the topics of their changes."""

import re
from typing import Final

from strom.connect.api import ConnectError
from strom.connect.connectors.databases.dialect import TableId
from strom.model.patterns import compile_pattern

_ITEM: Final = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]")
MAX_TOPIC_LENGTH: Final = 249


def parse_list(text: str) -> tuple[str, ...]:
    r"""The items of a list that is separated by commas; `\,` is a comma within an item."""
    items = (
        _ESCAPED.sub(lambda found: "," if found[1] == "," else found[0], item).strip()
        for item in _ITEM.findall(text)
    )
    return tuple(dict.fromkeys(item for item in items if item))


def matches(pattern: str, table: TableId) -> bool:
    """Whether a pattern matches a table's name, with or without its schema."""
    names = (str(table), table.name)
    return pattern in names or any(map(compile_pattern(pattern).fullmatch, names))


def is_topic_name(name: str) -> bool:
    """Whether Kafka accepts this as a topic name, or as the beginning of one."""
    return bool(name) and not _NOT_IN_TOPICS.search(name) and len(name) <= MAX_TOPIC_LENGTH


class TopicNames:
    """The topics of tables; no two tables have the same."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._tables: dict[str, TableId] = {}

    def topic(self, table: TableId) -> str:
        """Prefix, schema and name; characters that Kafka does not allow become underscores."""
        topic = _NOT_IN_TOPICS.sub("_", f"{self._prefix}.{table.schema}.{table.name}")
        if len(topic) > MAX_TOPIC_LENGTH:
            raise ConnectError(
                f"The topic {topic} of table {table} has {len(topic)} characters, which exceeds Kafka's "
                f"limit of {MAX_TOPIC_LENGTH}. Choose a shorter topic.prefix, or exclude the table with "
                "table.exclude.list."
            )
        other = self._tables.setdefault(topic, table)
        if other != table:
            raise ConnectError(
                f"The tables {_quoted(other)} and {_quoted(table)} would both have the topic {topic}. "
                "Exclude one of them with table.exclude.list, or follow it with a connector that has "
                "another topic.prefix."
            )
        return topic


def _quoted(table: TableId) -> str:
    return f'"{table.schema}"."{table.name}"'
