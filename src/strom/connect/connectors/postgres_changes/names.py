"""Names of tables: patterns that select them, and the topics that they become."""

import re
from typing import Final

from strom.connect.api import ConnectError
from strom.connect.connectors.databases.dialect import TableId
from strom.model.patterns import compile_pattern

_ITEM: Final = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]")
LONGEST_TOPIC: Final = 249


def parse_list(text: str) -> tuple[str, ...]:
    r"""The items of a list that is separated by commas; `\,` is a comma inside of one."""
    items = (
        _ESCAPED.sub(lambda found: "," if found[1] == "," else found[0], item).strip()
        for item in _ITEM.findall(text)
    )
    return tuple(dict.fromkeys(item for item in items if item))


def fits(pattern: str, table: TableId) -> bool:
    """Whether a pattern names a table, with or without its schema."""
    names = (str(table), table.name)
    return pattern in names or any(map(compile_pattern(pattern).fullmatch, names))


def is_topic(name: str) -> bool:
    """Whether Kafka takes this as (a part of) a topic's name."""
    return bool(name) and not _NOT_IN_TOPICS.search(name) and len(name) <= LONGEST_TOPIC


class TopicNames:
    """The topics of tables, each of one table only."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._tables: dict[str, TableId] = {}

    def topic(self, table: TableId) -> str:
        """Prefix, schema and name; characters that Kafka does not allow become underscores."""
        topic = _NOT_IN_TOPICS.sub("_", f"{self._prefix}.{table.schema}.{table.name}")
        if len(topic) > LONGEST_TOPIC:
            raise ConnectError(
                f"The topic {topic} of table {table} has {len(topic)} characters, which exceeds Kafka's "
                f"limit of {LONGEST_TOPIC}. Choose a shorter topic.prefix, or leave the table out by "
                "table.exclude.list."
            )
        other = self._tables.setdefault(topic, table)
        if other != table:
            raise ConnectError(
                f"The tables {_quoted(other)} and {_quoted(table)} would both have the topic {topic}. "
                "Leave one of them out by table.exclude.list, or follow it by a connector with "
                "another topic.prefix."
            )
        return topic


def _quoted(table: TableId) -> str:
    return f'"{table.schema}"."{table.name}"'
