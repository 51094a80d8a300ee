"""TimestampRouter: topics by the record's time, a new one every day or hour."""

from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Kind, PoisonRecord, setting
from strom.connect.transforms.contract import R, Transform
from strom.connect.transforms.date_patterns import DatePattern


@dataclass(frozen=True, kw_only=True)
class TimestampRouterSettings(ConnectorSettings):
    """What the new topics are called."""

    topic_format: str = setting(
        "topic.format",
        Kind.STRING,
        "The new name, made of ${topic} and ${timestamp}.",
        "${topic}-${timestamp}",
    )
    timestamp_format: str = setting(
        "timestamp.format",
        Kind.STRING,
        "How ${timestamp} is written, in the letters of Java's SimpleDateFormat.",
        "yyyyMMdd",
    )

    def validate(self) -> dict[str, str]:
        """The letters must be known."""
        try:
            DatePattern(self.timestamp_format)
        except ValueError as error:
            return {"timestamp.format": str(error)}
        return {}


class TimestampRouter(Transform):
    """Sends records to topics named by their time."""

    settings_class = TimestampRouterSettings

    def __init__(self, settings: TimestampRouterSettings) -> None:
        super().__init__(settings)
        self._pattern = DatePattern(settings.timestamp_format)

    def apply(self, record: R) -> R | None:
        """The record, to another topic."""
        if record.timestamp is None:
            raise PoisonRecord("The record has no time to route it by.")
        topic = self.settings.topic_format.replace("${topic}", record.topic)
        written = self._pattern.format(record.timestamp)
        return record._replace(topic=topic.replace("${timestamp}", written))
