"""RegexRouter, TimestampRouter, Filter: where records go."""

from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, PoisonRecord
from strom.connect.setting_forms import string
from strom.connect.transforms.contract import R, Transform, problem_of
from strom.connect.transforms.date_patterns import DatePattern
from strom.connect.transforms.java_regex import compile_pattern, compile_replacement


@dataclass(frozen=True, kw_only=True)
class RegexRouterSettings(ConnectorSettings):
    """Which topics, and their new names."""

    regex: str = string("regex", "The regular expression for the whole topic name.", required=True)
    replacement: str = string("replacement", "The new name; $1 is the first group.", required=True)

    def validate(self) -> dict[str, str]:
        return problem_of("regex", lambda: compile_pattern(self.regex)) or problem_of(
            "replacement",
            lambda: compile_replacement(self.replacement, compile_pattern(self.regex)),
        )


class RegexRouter(Transform):
    """Changes the topic of records whose topic matches."""

    settings_class = RegexRouterSettings

    def __init__(self, settings: RegexRouterSettings) -> None:
        super().__init__(settings)
        self._pattern = compile_pattern(settings.regex)
        self._replacement = compile_replacement(settings.replacement, self._pattern)
        self._routes: dict[str, str] = {}

    def apply(self, record: R) -> R | None:
        topic = self._routes.get(record.topic)
        if topic is None:
            topic = self._routed(record.topic)
            if len(self._routes) < 10_000:
                self._routes[record.topic] = topic
        return record if topic == record.topic else record._replace(topic=topic)

    def _routed(self, topic: str) -> str:
        if self._pattern.fullmatch(topic) is None:
            return topic
        return self._pattern.sub(self._replacement, topic, count=1)


@dataclass(frozen=True, kw_only=True)
class TimestampRouterSettings(ConnectorSettings):
    """How the new topics are named."""

    topic_format: str = string(
        "topic.format",
        "The new name, built from ${topic} and ${timestamp}.",
        "${topic}-${timestamp}",
    )
    timestamp_format: str = string(
        "timestamp.format",
        "The pattern of ${timestamp}, in the syntax of Java's SimpleDateFormat.",
        "yyyyMMdd",
    )

    def validate(self) -> dict[str, str]:
        return problem_of("timestamp.format", lambda: DatePattern(self.timestamp_format))


class TimestampRouter(Transform):
    """Routes records to topics by their timestamp."""

    settings_class = TimestampRouterSettings

    def __init__(self, settings: TimestampRouterSettings) -> None:
        super().__init__(settings)
        self._pattern = DatePattern(settings.timestamp_format)

    def apply(self, record: R) -> R | None:
        if record.timestamp is None:
            raise PoisonRecord("The record has no timestamp to route by.")
        topic = self.settings.topic_format.replace("${topic}", record.topic)
        written = self._pattern.format(record.timestamp)
        return record._replace(topic=topic.replace("${timestamp}", written))


class Filter(Transform):
    """Drops every record that it is applied to."""

    settings_class = ConnectorSettings

    def apply(self, record: R) -> R | None:
        return None
