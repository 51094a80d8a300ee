"""Filter: drops records that match its predicate."""

from dataclasses import dataclass

from strom.connect.api import ConnectorSettings
from strom.connect.transforms.contract import R, Transform


@dataclass(frozen=True, kw_only=True)
class FilterSettings(ConnectorSettings):
    """Filter has no settings."""


class Filter(Transform):
    """Drops every record that it is applied to."""

    settings_class = FilterSettings

    def apply(self, record: R) -> R | None:
        return None
