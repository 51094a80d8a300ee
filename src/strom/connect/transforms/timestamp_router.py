"""TimestampRouter: appends the record's timestamp to its topic, for example a topic per day."""

from dataclasses import dataclass

from strom.connect.api import ConnectorSettings, Kind, PoisonRecord, setting
from strom.connect.transforms.contract import R, Transform
from strom.connect.transforms.date_patterns import DatePattern


@dataclass(frozen=True, kw_only=True)
class TimestampRouterSettings(ConnectorSettings):
    """How the new topics are named."""

    topic_format: str = setting(
        "topic.format",
        Kind.STRING,
        "The new name, built from ${topic} and ${timestamp}.",
        "${topic}-${timestamp}",
    )
    timestamp_format: str = setting(
        "timestamp.format",
        Kind.STRING,
        "The pattern of ${timestamp}, in the syntax of Java's SimpleDateFormat.",
        "yyyyMMdd",
    )

    def validate(self) -> dict[str, str]:
        try:
            DatePattern(self.timestamp_format)
        except ValueError as error:
            return {"timestamp.format": str(error)}
        return {}


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
