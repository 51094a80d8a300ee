"""Timeouts of a source's transactions, and settings that contradict them.

The broker aborts a transaction that is open for longer than its producer's `transaction.timeout.ms`,
and fences the producer. So the timeout follows the interval between commits, and a configuration
whose interval no timeout covers is refused.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from strom.client.cluster import broker_config
from strom.connect.runtime.settings import SourceSettings
from strom.model.settings import INT_MAX, MINUTE_MS

TIMEOUT: Final = "transaction.timeout.ms"
BROKER_LIMIT: Final = "transaction.max.timeout.ms"
COMMIT_MS: Final = MINUTE_MS
"""Added to the interval for the last poll, the flush and the commit."""
_RESPONSE_S: Final = 5.0

Problem = tuple[str, str]
"""A setting's name, and why it is invalid."""


def commit_interval_ms(settings: SourceSettings, flush_ms: int) -> int:
    """The interval between commits; 0 if every poll or the task itself ends the transaction."""
    if settings.transaction_boundary != "interval":
        return 0
    return settings.transaction_interval_ms or flush_ms


def timeout_ms(interval_ms: int) -> int:
    """The timeout of a producer's transactions, unless it is configured."""
    return min(interval_ms + COMMIT_MS, INT_MAX)


@dataclass(frozen=True)
class ConfiguredTimeout:
    """A timeout in the configuration, and the setting that it is from."""

    setting: str
    ms: int


def configured_timeout(
    connector: Mapping[str, str], worker_producer: Mapping[str, str]
) -> ConfiguredTimeout | None:
    """The producer's timeout in the settings of the connector or the worker; None if not set."""
    for setting, text in (
        (f"producer.override.{TIMEOUT}", connector.get(f"producer.override.{TIMEOUT}")),
        (f"producer.{TIMEOUT}", worker_producer.get(TIMEOUT)),
    ):
        if text is not None:
            # An invalid number is reported by the validation of overrides.
            return ConfiguredTimeout(setting, int(text)) if text.strip().isdecimal() else None
    return None


def timeout_problems(
    settings: SourceSettings,
    flush_ms: int,
    configured: ConfiguredTimeout | None,
    broker_limit_ms: Callable[[], int | None],
) -> Iterator[Problem]:
    """Yield why the transactions of a source could not be committed with these settings."""
    interval_ms = commit_interval_ms(settings, flush_ms)
    if not interval_ms and configured is None:
        return
    interval_setting = (
        "transaction.boundary.interval.ms"
        if settings.transaction_interval_ms
        else "offset.flush.interval.ms"
    )
    if configured is not None and interval_ms and configured.ms <= interval_ms:
        yield (
            f"producer.override.{TIMEOUT}",
            f"{configured.setting}={configured.ms} does not exceed the interval between commits, "
            f"{interval_setting}={interval_ms}: the broker would abort every transaction before its "
            "commit. Raise the timeout, remove it so that it follows the interval, or shorten the "
            "interval.",
        )
        return
    limit_ms = broker_limit_ms() or INT_MAX
    limit = f"exceeds the limit of {limit_ms} ms, the broker's {BROKER_LIMIT}"
    if configured is not None:
        if configured.ms > limit_ms:
            yield f"producer.override.{TIMEOUT}", f"{configured.setting}={configured.ms} {limit}."
    elif interval_ms + COMMIT_MS > limit_ms:
        yield (
            "transaction.boundary.interval.ms",
            f"{interval_setting}={interval_ms} and {COMMIT_MS} ms for the commit need a transaction "
            f"timeout that {limit}. Shorten the interval, or raise the broker's limit.",
        )


def read_broker_limit_ms(admin: AdminClient) -> int | None:
    """The longest transaction timeout that the broker accepts; None if it is unknown."""
    try:
        return int(broker_config(admin, _RESPONSE_S)[BROKER_LIMIT])
    except (KafkaException, KeyError, ValueError):
        return None
