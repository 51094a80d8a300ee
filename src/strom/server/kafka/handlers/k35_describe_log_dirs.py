"""DescribeLogDirs, api key 35: the sizes of partitions on disk."""

from strom.broker.partition import HostedTopic
from strom.model.errors import ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.wire.kafka.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handler(DescribeLogDirsRequest, Needs(Operation.DESCRIBE, Resource.CLUSTER))
def describe_log_dirs(request: DescribeLogDirsRequest, context: Context) -> Outcome:
    """The only data directory, with the requested topics or all."""
    directory = context.broker.directory
    if directory.offline is not None:
        result = DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path
        )
        return DescribeLogDirsResponse(results=[result])
    total, usable = directory.space()
    result = DescribeLogDirsResult(
        log_dir=directory.path,
        topics=_topics(request, context),
        total_bytes=total,
        usable_bytes=usable,
    )
    return DescribeLogDirsResponse(results=[result])


def _topics(request: DescribeLogDirsRequest, context: Context) -> list[DescribeLogDirsTopic]:
    if request.topics is None:
        return [_topic(hosted, None) for hosted in context.broker.topics()]
    return [
        _topic(hosted, wanted.partitions)
        for wanted in request.topics
        if (hosted := context.broker.find_topic(wanted.topic)) is not None
    ]


def _topic(hosted: HostedTopic, wanted: list[int] | None) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=hosted.topic.name,
        partitions=[
            DescribeLogDirsPartition(
                partition_index=index, partition_size=partition.log.size_bytes, offset_lag=0
            )
            for index, partition in enumerate(hosted.partitions)
            if wanted is None or index in wanted
        ],
    )
