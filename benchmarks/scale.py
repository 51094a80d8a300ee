"""How much is measured: enough to mean something, or just enough to see that it works."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The size of a run."""

    rounds: int
    megabytes: int
    """How much a throughput measurement produces and consumes in each round."""
    most_records: int
    """No throughput measurement uses more records than this."""
    latency_seconds: float
    small_log: int
    large_log: int
    few_partitions: int
    many_partitions: int
    transactions: int
    """How many transactions one measurement commits."""
    commits: int
    """How many commits are sent without waiting for the one before."""
    rebalances: int
    """How often a member joins and leaves for one figure."""
    shared_records: int
    """How many records a share group takes."""

    def records(self, record_bytes: int) -> int:
        """How many records of a size one throughput measurement uses."""
        return min(self.most_records, self.megabytes * 1_000_000 // record_bytes)


FULL = Scale(
    rounds=5,
    megabytes=600,
    most_records=3_000_000,
    latency_seconds=5,
    small_log=10_000,
    large_log=10_000_000,
    few_partitions=10,
    many_partitions=4_000,
    transactions=500,
    commits=20_000,
    rebalances=5,
    shared_records=1_000_000,
)
QUICK = Scale(
    rounds=2,
    megabytes=100,
    most_records=500_000,
    latency_seconds=1.5,
    small_log=10_000,
    large_log=1_000_000,
    few_partitions=10,
    many_partitions=400,
    transactions=100,
    commits=3_000,
    rebalances=3,
    shared_records=200_000,
)
