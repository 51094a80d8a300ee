"""The settings of client metrics subscriptions (KIP-714), with Kafka's names and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.model.errors import ApiError, ErrorCode
from strom.model.patterns import UserPattern, compile_pattern
from strom.model.settings import HOUR_MS, MINUTE_MS, Settings, dynamic

CLIENT_ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
SHORTEST_INTERVAL_MS = 100


@dataclass(frozen=True, kw_only=True)
class ClientMetricsSettings(Settings):
    """Which metrics which clients push. Change one with `kafka-configs --entity-type client-metrics`."""

    metrics: tuple[str, ...] = dynamic(
        "metrics",
        (),
        "Prefixes of the names of the metrics to push; `*` for all. None are pushed by default.",
    )
    interval_ms: int = dynamic(
        "interval.ms", 5 * MINUTE_MS, "How often matching clients push, from 100 ms to an hour."
    )
    match: tuple[str, ...] = dynamic(
        "match",
        (),
        "The clients that push: `attribute=pattern` for any of "
        f"{', '.join(CLIENT_ATTRIBUTES)}. All of them must match; without any, every client does.",
    )

    def patterns(self) -> dict[str, UserPattern]:
        """The patterns by attribute; INVALID_CONFIG if one is invalid."""
        found = {}
        for item in self.match:
            attribute, _, text = (part.strip() for part in item.partition("="))
            if attribute not in CLIENT_ATTRIBUTES or not text:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"Invalid client match {item}: use attribute=pattern with one of "
                    f"{', '.join(CLIENT_ATTRIBUTES)}.",
                )
            try:
                found[attribute] = compile_pattern(text)
            except ValueError as error:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG, f"Invalid client match {item}: {error}."
                ) from None
        return found


def check_client_metrics_configs(own: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG or INVALID_REQUEST, each where Kafka does, unless the settings are valid."""
    settings = ClientMetricsSettings().override(own)
    if not SHORTEST_INTERVAL_MS <= settings.interval_ms <= HOUR_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {settings.interval_ms} for interval.ms: it must be between "
            f"{SHORTEST_INTERVAL_MS} and {HOUR_MS}.",
        )
    settings.patterns()
