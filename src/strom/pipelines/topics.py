"""Creates the topics that a project reads and writes before anything runs."""

from strom.model.errors import UserError
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.kafka_log import KafkaLog
from strom.pipelines.project import Project


def prepare_topics(project: Project, kafka: KafkaLog) -> None:
    """Create missing topics; UserError if a stream's topic is missing in an external Kafka cluster.

    A producer would auto-create a missing topic with the broker's defaults: another number of partitions
    than the stream's, and without the retention that a replay needs. So call this first.
    """
    topics = kafka.topics()
    for stream in project.read_streams:
        if stream.topic not in topics:
            _create_topic(project, kafka, stream)
        if stream.dead_letter_topic not in topics:
            kafka.create(stream.dead_letter_topic, 1)


def _create_topic(project: Project, kafka: KafkaLog, stream: Stream) -> None:
    if project.settings.servers:
        raise UserError(
            f"{stream.place}: Topic {stream.topic} does not exist at {kafka.servers}. "
            "Create it, or correct the stream."
        )
    kafka.create(stream.topic, stream.partitions)
