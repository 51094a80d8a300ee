"""DescribeLogDirs, api key 35: the sizes of partitions on disk."""

from strom.broker.partition import HostedTopic
from strom.model.errors import ErrorCode
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handler(DescribeLogDirsRequest, Needs(Operation.DESCRIBE, Resource.CLUSTER))
def describe_log_dirs(
    request: DescribeLogDirsRequest, context: Context
) -> Steps[DescribeLogDirsResponse]:
    """The only data directory, with the requested topics or all."""
    directory = context.broker.directory
    if directory.offline is not None:
        result = DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path
        )
        return DescribeLogDirsResponse(results=[result])
    total, usable = directory.space()
    topics = yield from _topics(request, context)
    result = DescribeLogDirsResult(
        log_dir=directory.path,
        topics=topics,
        total_bytes=total,
        usable_bytes=usable,
    )
    return DescribeLogDirsResponse(results=[result])


def _topics(request: DescribeLogDirsRequest, context: Context) -> Steps[list[DescribeLogDirsTopic]]:
    wanted: list[tuple[HostedTopic | None, set[int] | None]]
    if request.topics is None:
        wanted = [(hosted, None) for hosted in context.broker.topics()]
    else:
        find = context.broker.find_topic
        asked: dict[str, set[int]] = {}
        for topic in request.topics:  # one result for a topic that is named twice, as in Kafka
            asked.setdefault(topic.topic, set()).update(topic.partitions)
            yield None
        wanted = [(find(name), its) for name, its in asked.items()]
    topics = []
    for hosted, indexes in wanted:
        yield None
        if hosted is not None:
            topics.append((yield from _topic(hosted, indexes)))
    return topics


def _topic(hosted: HostedTopic, wanted: set[int] | None) -> Steps[DescribeLogDirsTopic]:
    answer = DescribeLogDirsTopic(name=hosted.topic.name)
    for index, partition in enumerate(tuple(hosted.partitions)):
        yield None
        if wanted is None or index in wanted:
            size_bytes = partition.log.size_bytes
            answer.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index, partition_size=size_bytes, offset_lag=0
                )
            )
    return answer
