"""The topics that a project reads and writes: there before anything runs."""

from strom.model.errors import UserError
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.project import Project


def prepare_topics(project: Project, kafka: KafkaLog) -> None:
    """Make the topics that are missing; UserError if one is read that the user's own Kafka has not.

    Whoever writes to a topic that is not there makes it by the broker's defaults: with other partitions
    than the stream wants, and without the retention that a replay needs. So this comes first.
    """
    topics = kafka.topics()
    for stream in project.read_streams:
        if stream.topic not in topics:
            _make(project, kafka, stream)
        if stream.dead_letter_topic not in topics:
            kafka.create(stream.dead_letter_topic, 1)


def _make(project: Project, kafka: KafkaLog, stream: Stream) -> None:
    if project.settings.servers:
        raise UserError(
            f"{stream.place}: There is no topic {stream.topic} at {kafka.servers}. "
            "Create it, or correct the stream."
        )
    kafka.create(stream.topic, stream.partitions)
