"""RegexRouter: changes topics by a regular expression."""

from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Kind, setting
from strom.connect.transforms.contract import R, Transform
from strom.connect.transforms.java_regex import compile_pattern, compile_replacement


@dataclass(frozen=True, kw_only=True)
class RegexRouterSettings(ConnectorSettings):
    """Which topics, and their new names."""

    regex: str = setting(
        "regex", Kind.STRING, "The regular expression for the whole topic name.", required=True
    )
    replacement: str = setting(
        "replacement", Kind.STRING, "The new name; $1 is the first group.", required=True
    )

    def validate(self) -> dict[str, str]:
        try:
            pattern = compile_pattern(self.regex)
        except ValueError as error:
            return {"regex": str(error)}
        try:
            compile_replacement(self.replacement, pattern)
        except ValueError as error:
            return {"replacement": str(error)}
        return {}


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
