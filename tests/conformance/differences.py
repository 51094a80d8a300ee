"""Where strom differs from Kafka on purpose: test (or test[case]) → why.

A test named here must fail on strom and pass on Kafka; when strom comes round, it says so.
"""

_OPAQUE = (
    "strom keeps batches opaque: it checks header and checksum, and looks at single records only where "
    "a setting of the topic concerns them"
)

_UNREADABLE = "test_records_that_cannot_be_read_are_refused_whatever_the_code"

DIFFERENCES: dict[str, str] = {
    f"{_UNREADABLE}[strom-plain bytes called gzip]": _OPAQUE,
    f"{_UNREADABLE}[strom-records that are noise]": _OPAQUE,
    "test_the_brokers_say_overrides_what_a_producer_claims": _OPAQUE,
}
