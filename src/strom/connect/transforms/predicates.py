"""The three predicates that Kafka has: of which records a transform is applied to."""

from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Kind, setting
from strom.connect.transforms.contract import Predicate, Record
from strom.connect.transforms.java_regex import compile_pattern


@dataclass(frozen=True, kw_only=True)
class HasHeaderKeySettings(ConnectorSettings):
    """Which header."""

    name: str = setting("name", Kind.STRING, "The header's name.", required=True)


class HasHeaderKey(Predicate):
    """True of records with a header of that name."""

    settings_class = HasHeaderKeySettings

    def holds(self, record: Record) -> bool:
        """Whether the record has it."""
        return any(header.key == self.settings.name for header in record.headers)


@dataclass(frozen=True, kw_only=True)
class RecordIsTombstoneSettings(ConnectorSettings):
    """None."""


class RecordIsTombstone(Predicate):
    """True of records without a value."""

    settings_class = RecordIsTombstoneSettings

    def holds(self, record: Record) -> bool:
        """Whether the record has none."""
        return record.value is None


@dataclass(frozen=True, kw_only=True)
class TopicNameMatchesSettings(ConnectorSettings):
    """Which topics."""

    pattern: str = setting(
        "pattern", Kind.STRING, "What the whole name of the topic must match.", required=True
    )

    def validate(self) -> dict[str, str]:
        """It must be a regular expression."""
        try:
            compile_pattern(self.pattern)
        except ValueError as error:
            return {"pattern": str(error)}
        return {}


class TopicNameMatches(Predicate):
    """True of records whose topic's name matches."""

    settings_class = TopicNameMatchesSettings

    def __init__(self, settings: TopicNameMatchesSettings) -> None:
        super().__init__(settings)
        self._pattern = compile_pattern(settings.pattern)

    def holds(self, record: Record) -> bool:
        """Whether the topic matches."""
        return self._pattern.fullmatch(record.topic) is not None
