"""Kafka's three predicates, which select the records that a transform applies to."""

from dataclasses import dataclass

from strom.connect.api import ConnectorSettings
from strom.connect.setting_forms import string
from strom.connect.transforms.contract import Predicate, Record, problem_of
from strom.connect.transforms.java_regex import compile_pattern


@dataclass(frozen=True, kw_only=True)
class HasHeaderKeySettings(ConnectorSettings):
    name: str = string("name", "The header's name.", required=True)


class HasHeaderKey(Predicate):
    """Matches records with a header of this name."""

    settings_class = HasHeaderKeySettings

    def test(self, record: Record) -> bool:
        return any(header.key == self.settings.name for header in record.headers)


class RecordIsTombstone(Predicate):
    """Matches records without a value."""

    settings_class = ConnectorSettings

    def test(self, record: Record) -> bool:
        return record.value is None


@dataclass(frozen=True, kw_only=True)
class TopicNameMatchesSettings(ConnectorSettings):
    pattern: str = string(
        "pattern", "The regular expression for the whole topic name.", required=True
    )

    def validate(self) -> dict[str, str]:
        return problem_of("pattern", lambda: compile_pattern(self.pattern))


class TopicNameMatches(Predicate):
    """Matches records by the name of their topic."""

    settings_class = TopicNameMatchesSettings

    def __init__(self, settings: TopicNameMatchesSettings) -> None:
        super().__init__(settings)
        self._pattern = compile_pattern(settings.pattern)

    def test(self, record: Record) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
