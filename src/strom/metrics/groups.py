"""Metrics of groups and transactions."""

from typing import NamedTuple

from strom.metrics.tables import MetricTable, counter, gauge

GROUPS = MetricTable(
    ("type", "state"),
    (
        gauge("strom_groups", "Groups by type and state.", "group-count"),
        gauge("strom_group_members", "Members of those groups."),
    ),
)
GROUP_MEMORY = MetricTable(
    (),
    (
        gauge("strom_groups_memory_bytes", "Bytes that the members of all groups take."),
        gauge(
            "strom_groups_memory_limit_bytes", "How many bytes those may take (groups.max.bytes)."
        ),
    ),
)
OFFSETS = MetricTable(
    ("group", "topic", "partition"),
    (
        gauge(
            "strom_group_lag_records",
            "Records between the committed offset and the end of the partition.",
            "records-lag (of consumers)",
        ),
        gauge("strom_group_committed_offset", "The committed offset."),
    ),
    ranked_by=0,
)
SHARES = MetricTable(
    ("group", "topic", "partition"),
    (
        gauge(
            "strom_share_group_lag_records",
            "Records that are neither acknowledged nor archived.",
        ),
        gauge("strom_share_group_in_flight_records", "Records that members have acquired."),
    ),
    ranked_by=0,
)
TRANSACTIONS = MetricTable(
    ("state",), (gauge("strom_transactions", "Transactional ids by state of their transaction."),)
)
TRANSACTION_ENDS = MetricTable(
    ("result",),
    (counter("strom_transactions_ended", "Transactions that were committed or aborted."),),
)
OPEN_TRANSACTIONS = MetricTable(
    (),
    (
        counter(
            "strom_transactions_timed_out",
            "Transactions that the broker aborted for their timeout.",
        ),
        gauge(
            "strom_transactions_hanging",
            "Open transactions that have exceeded their timeout. They hold consumers of committed "
            "records back.",
            "PartitionsWithLateTransactionsCount",
        ),
        gauge("strom_transaction_oldest_open_seconds", "Age of the oldest open transaction."),
    ),
)
TABLES = (GROUPS, GROUP_MEMORY, OFFSETS, SHARES, TRANSACTIONS, TRANSACTION_ENDS, OPEN_TRANSACTIONS)


class GroupsReading(NamedTuple):
    """A row of GROUPS."""

    type: str
    state: str
    groups: int
    members: int


class LagReading(NamedTuple):
    """A row of OFFSETS."""

    group: str
    topic: str
    partition: int
    lag: int
    committed: int


class ShareLagReading(NamedTuple):
    """A row of SHARES."""

    group: str
    topic: str
    partition: int
    lag: int
    in_flight: int


class OpenTransactionsReading(NamedTuple):
    """The row of OPEN_TRANSACTIONS."""

    timed_out: int
    hanging: int
    oldest_seconds: float
