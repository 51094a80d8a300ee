"""`topics.regex` means what it means in Kafka: the whole name, in Java's notation."""

import pytest

from strom.connect.runtime.topic_patterns import posix_pattern


@pytest.mark.parametrize(
    ("regex", "pattern"),
    [
        ("orders", "^(orders)$"),
        ("a|b", "^(a|b)$"),
        ("^a.*", "^(^a.*)$"),
        (r"orders-\d+", "^(orders-[0-9]+)$"),
        (r"[\d_]+", "^([0-9_]+)$"),
        (r"\D+\.\w", r"^([^0-9]+\.[a-zA-Z0-9_])$"),
        (r"(?:a|b)c{2,3}", "^((a|b)c{2,3})$"),
        (r"[a\-z]", "^([a[.-.]z])$"),
        (r"[^]a]+", "^([^]a]+)$"),
        (r"[.*+?]", "^([.*+?])$"),
    ],
)
def test_a_pattern_is_written_as_posix_has_it(regex, pattern):
    assert posix_pattern(regex) == pattern


@pytest.mark.parametrize("regex", ["a(", "[a", "(?!a)b", "(?<=a)b", r"\bа", "a*?", "a++", r"[\D]"])
def test_what_cannot_be_written_so_is_refused(regex):
    with pytest.raises(ValueError, match=r"\.$"):
        posix_pattern(regex)
