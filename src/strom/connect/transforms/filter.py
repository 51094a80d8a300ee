"""Filter: drops records; which ones, its predicate says."""

from dataclasses import dataclass

from strom.connect.api import ConnectorSettings
from strom.connect.transforms.contract import R, Transform


@dataclass(frozen=True, kw_only=True)
class FilterSettings(ConnectorSettings):
    """None."""


class Filter(Transform):
    """Drops every record it is applied to."""

    settings_class = FilterSettings

    def apply(self, record: R) -> R | None:
        """Nothing."""
        return None
