"""The connection settings of sources and sinks."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from strom.connect.api import ConnectorSettings, Importance
from strom.connect.connectors.databases.address import (
    EXAMPLES,
    Address,
    UnknownAddress,
    parse_address,
)
from strom.connect.connectors.databases.time_zones import UnknownZone, find_zone
from strom.connect.setting_forms import secret, string


@dataclass(frozen=True, kw_only=True)
class DatabaseSettings(ConnectorSettings):
    """URL and credentials of the database, and its time zone."""

    url: str = string("connection.url", f"The database: {EXAMPLES}.", "", required=True)
    user: str | None = string(
        "connection.user", "The user to authenticate as.", importance=Importance.HIGH
    )
    password: str | None = secret(
        "connection.password",
        "The user's password, preferably as a reference such as ${env:NAME}.",
        importance=Importance.HIGH,
    )
    timezone: str = string(
        "db.timezone",
        "The time zone of columns without one, such as PostgreSQL's timestamp: UTC, or a "
        "name such as Europe/Berlin.",
        "UTC",
    )

    @property
    def zone(self) -> tzinfo:
        """The database's time zone; UnknownZone if the name is unknown."""
        return find_zone(self.timezone)

    def address(self) -> Address:
        """The database; UnknownAddress if the URL is invalid."""
        return parse_address(self.url, self.user, self.password)

    def validate(self) -> Mapping[str, str]:
        """The URL and the time zone must be valid."""
        found: dict[str, str] = {}
        try:
            self.address()
        except UnknownAddress as error:
            found["connection.url"] = str(error)
        try:
            find_zone(self.timezone)
        except UnknownZone:
            found["db.timezone"] = (
                f"Unknown time zone {self.timezone}; use UTC or a name of the IANA time zone "
                "database, such as Europe/Berlin. (A system without that database needs the package "
                "tzdata.)"
            )
        return found


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to the nearest name, as a sentence to append."""
    choices = list(known)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    if near:
        return f" Did you mean {near[0]}?"
    return f" Available: {', '.join(choices[:20])}." if choices else ""
