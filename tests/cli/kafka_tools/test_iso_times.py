"""Times and durations as Kafka's tools take them."""

import pytest

from strom.cli.kafka_tools.iso_times import parse_datetime_ms, parse_duration_ms
from strom.model.errors import UserError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-02T00:00:00.000Z", 86_400_000),
    ],
)
def test_times_are_in_utc_unless_they_say_otherwise(text, milliseconds):
    assert parse_datetime_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P1DT0.5S", 86_400_500), ("PT0S", 0)],
)
def test_durations(text, milliseconds):
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1h", "P1H", "yesterday"])
def test_what_is_neither_is_reported(text):
    with pytest.raises(UserError):
        parse_duration_ms(text)
    with pytest.raises(UserError):
        parse_datetime_ms(text)
