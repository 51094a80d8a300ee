"""The settings that say which database, for sources and sinks alike."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from strom.connect.api import ConnectorSettings, Importance, Kind, setting
from strom.connect.connectors.databases.address import (
    EXAMPLES,
    Address,
    UnknownAddress,
    parse_address,
)
from strom.connect.connectors.databases.time_zones import UnknownZone, find_zone


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings(ConnectorSettings):
    """Where the database is, and who logs in."""

    url: str = setting(
        "connection.url", Kind.STRING, f"The database: {EXAMPLES}.", "", required=True
    )
    user: str | None = setting(
        "connection.user", Kind.STRING, "Who logs in.", importance=Importance.HIGH
    )
    password: str | None = setting(
        "connection.password",
        Kind.PASSWORD,
        "The user's password, best as a reference such as ${env:NAME}.",
        importance=Importance.HIGH,
    )
    timezone: str = setting(
        "db.timezone",
        Kind.STRING,
        "The time zone of columns that do not say theirs, such as PostgreSQL's timestamp: UTC, or a "
        "name such as Europe/Berlin.",
        "UTC",
    )

    @property
    def zone(self) -> tzinfo:
        """The database's time zone; UnknownZone if there is none of this name."""
        return find_zone(self.timezone)

    def address(self) -> Address:
        """The database; UnknownAddress if the text is none."""
        return parse_address(self.url, self.user, self.password)

    def validate(self) -> Mapping[str, str]:
        """Whether the address and the time zone are ones."""
        found: dict[str, str] = {}
        try:
            self.address()
        except UnknownAddress as error:
            found["connection.url"] = str(error)
        try:
            find_zone(self.timezone)
        except UnknownZone:
            found["db.timezone"] = (
                f"There is no time zone {self.timezone}; write UTC or a name of the IANA time zone "
                "database, such as Europe/Berlin. (A system without that database needs the package "
                "tzdata.)"
            )
        return found


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to the nearest name, to be put after a full stop."""
    choices = list(known)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    if near:
        return f" Did you mean {near[0]}?"
    return f" There are: {', '.join(choices[:20])}." if choices else ""
