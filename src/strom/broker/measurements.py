"""What metrics read of a broker, its groups, transactions and queues: one small row after the other.

A scrape is interrupted between any two rows, so every row is a copy, and may name
something that has been deleted since.
"""

from collections import Counter
from collections.abc import Iterator

from strom.broker.broker import Broker
from strom.broker.queues.hub import QueueBroker
from strom.broker.share_groups import ShareGroups
from strom.broker.transactions import Transactions
from strom.coordination.groups.coordinator import GroupCoordinator
from strom.coordination.transactions.states import TransactionState
from strom.metrics.groups import (
    GroupsReading,
    LagReading,
    OpenTransactionsReading,
    ShareLagReading,
)
from strom.metrics.queues import QueueReading
from strom.metrics.storage import DirectoryReading, PartitionReading

NOT_KNOWN = float("nan")


def read_partitions(broker: Broker) -> Iterator[PartitionReading]:
    """Every partition, that of the metadata log included."""
    for partition in broker.all_partitions():
        if not partition.deleted:
            yield partition.reading()


def read_directory(broker: Broker) -> Iterator[DirectoryReading]:
    """The data directory, and the file system that it is on."""
    directory = broker.directory
    try:
        total, free = directory.space()
    except OSError:
        total = free = NOT_KNOWN  # type: ignore[assignment]
    yield DirectoryReading(directory.offline is not None, directory.refuses_writes, free, total)


def read_groups(groups: GroupCoordinator) -> Iterator[GroupsReading | None]:
    """How many groups there are by type and state, and their members."""
    counts: Counter[tuple[str, str]] = Counter()
    members: Counter[tuple[str, str]] = Counter()
    for group in groups.all_groups():
        key = (group.kind.value, group.state_name)
        counts[key] += 1
        members[key] += group.member_count
        yield None
    for key, count in counts.items():
        yield GroupsReading(*key, count, members[key])


def read_lags(broker: Broker, groups: GroupCoordinator) -> Iterator[LagReading | None]:
    """How far each group is behind in what it has committed offsets of."""
    for group in groups.all_groups():
        for (topic, index), committed in tuple(groups.committed(group.id).items()):
            hosted = broker.find_topic(topic)
            if hosted is not None and index < len(hosted.partitions):
                log = hosted.partitions[index].log
                lag = max(0, log.high_watermark - max(committed.offset, log.start_offset))
                yield LagReading(group.id, topic, index, lag, committed.offset)
        yield None


def read_share_lags(shares: ShareGroups) -> Iterator[ShareLagReading]:
    """How far each share group is behind, and what its members have acquired."""
    for shared in shares.all_partitions():
        state = shared.shared.partition
        if state.start_offset >= 0 and not shared.source.deleted:
            ranges = state.ranges
            in_flight = ranges.unfinished - ranges.available
            topic, index = shared.log.partition
            yield ShareLagReading(shared.shared.key.group, topic, index, shared.lag, in_flight)


def read_transactions(transactions: Transactions) -> Iterator[tuple[str, int] | None]:
    """How many transactional ids there are in each state."""
    counts = dict.fromkeys(TransactionState, 0)
    for one in transactions.look().all_transactions():
        counts[one.state] += 1
        yield None
    for state, count in counts.items():
        yield state.value, count


def read_open_transactions(
    transactions: Transactions, now_ms: int
) -> Iterator[OpenTransactionsReading | None]:
    """How old open transactions are."""
    oldest_ms, hanging = now_ms, 0
    for one in transactions.look().all_transactions():
        if one.state is TransactionState.ONGOING:
            oldest_ms = min(oldest_ms, one.started_ms)
            hanging += one.started_ms + one.timeout_ms < now_ms
        yield None
    yield OpenTransactionsReading(transactions.timed_out, hanging, (now_ms - oldest_ms) / 1000)


def read_queues(queues: QueueBroker) -> Iterator[QueueReading]:
    for vhost in tuple(queues.vhosts.values()):
        for queue in tuple(vhost.queues.values()):
            yield queue.reading()
