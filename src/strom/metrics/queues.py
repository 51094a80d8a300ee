"""Metrics of message queues."""

from typing import NamedTuple

from strom.metrics.tables import MetricTable, counter, gauge

QUEUES = MetricTable(
    ("vhost", "queue"),
    (
        gauge("strom_queue_messages_ready", "Messages that wait for a consumer."),
        gauge("strom_queue_messages_unacked", "Messages delivered and not yet acknowledged."),
        gauge(
            "strom_queue_ready_bytes",
            "Bytes of the bodies of ready messages, where the queue counts them.",
        ),
        gauge("strom_queue_consumers", "Consumers."),
        counter("strom_queue_messages_published", "Messages that the queue has accepted."),
        counter("strom_queue_messages_delivered", "Deliveries, redeliveries included."),
        counter("strom_queue_messages_redelivered", "Deliveries of messages delivered before."),
        counter("strom_queue_messages_acked", "Messages that consumers have acknowledged."),
        counter(
            "strom_queue_messages_dropped",
            "Messages that expired, were rejected, or exceeded a limit of length or of deliveries; they "
            "go to the dead letter exchange, where the queue has one.",
        ),
    ),
    ranked_by=0,
)
AMQP = MetricTable(
    (),
    (
        gauge("strom_queues", "Queues, those included that have no series of their own."),
        gauge(
            "strom_queues_damaged", "Queues that are not served because their log cannot be read."
        ),
        gauge(
            "strom_exchanges_stopped_partitions",
            "Partitions that feed an exchange and cannot be read: it goes on when they can.",
        ),
        gauge("strom_amqp_channels", "Open channels."),
        gauge("strom_amqp_publishers_blocked", "1 while messages are refused for want of space."),
    ),
)
TABLES = (QUEUES, AMQP)


class QueueReading(NamedTuple):
    """A row of QUEUES."""

    vhost: str
    queue: str
    ready: int
    unacked: int
    ready_bytes: int
    consumers: int
    published: int
    delivered: int
    redelivered: int
    acked: int
    dropped: int


class AmqpReading(NamedTuple):
    """The row of AMQP."""

    queues: int
    damaged: int
    stopped_partitions: int
    channels: int
    is_blocked: bool
