"""Where strom differs from Kafka on purpose: test (or test[case]) → why.

A test named here must fail on strom and pass on Kafka; when strom comes round, it says so.
"""

_OPAQUE = (
    "strom keeps batches opaque: it checks header and checksum, and looks at single records only where "
    "a setting of the topic concerns them"
)

_UNREADABLE = "test_records_that_cannot_be_read_are_refused_with_any_codec"

DIFFERENCES: dict[str, str] = {
    f"{_UNREADABLE}[strom-plain bytes called gzip]": _OPAQUE,
    f"{_UNREADABLE}[strom-records that are noise]": _OPAQUE,
    f"{_UNREADABLE}[strom-nothing but noise]": _OPAQUE,
    "test_an_older_epoch_aborts_what_is_ongoing": (
        "a producer that is fenced already must not disturb the one that fenced it: it gets an error"
    ),
    "test_a_feature_can_be_downgraded": (
        "every feature stays at its highest level: there is no older behaviour to return to"
    ),
    "test_the_brokers_say_overrides_what_a_producer_claims": _OPAQUE,
}
