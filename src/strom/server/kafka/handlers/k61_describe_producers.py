"""DescribeProducers, api key 61: the active producers of partitions."""

from strom.model.errors import ApiError
from strom.model.steps import Steps
from strom.model.topics import TopicPartition
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.storage.producer_state import ProducerInfo
from strom.wire.kafka.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

NONE = -1


@handler(DescribeProducersRequest, Needs(Operation.READ, Resource.TOPIC))
async def describe_producers(
    request: DescribeProducersRequest, context: Context
) -> DescribeProducersResponse:
    # As in Kafka, the response repeats a partition that the request repeats.
    described: dict[TopicPartition, PartitionResponse] = {}
    response = DescribeProducersResponse()
    pause = context.long_work.pauses()
    for topic in request.topics:
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        for index in topic.partition_indexes:
            await pause()
            one = TopicPartition(topic.name, index)
            if one not in described:
                described[one] = await context.long_work.run(_describe(one, context))
            answer.partitions.append(described[one])
    return response


def _describe(wanted: TopicPartition, context: Context) -> Steps[PartitionResponse]:
    answer = PartitionResponse(partition_index=wanted.partition)
    try:
        log = context.broker.topic(wanted.topic).partition(wanted.partition).log
    except ApiError as error:
        answer.error_code = error.code
        return answer
    for producer in log.producers():
        answer.active_producers.append(_state(producer))
        yield None
    return answer


def _state(producer: ProducerInfo) -> ProducerState:
    first, epoch = producer.transaction_first_offset, producer.coordinator_epoch
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=NONE if epoch is None else epoch,
        current_txn_start_offset=NONE if first is None else first,
    )
