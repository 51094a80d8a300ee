"""DescribeProducers, api key 61: the active producers of partitions."""

from strom.model.errors import ApiError
from strom.model.steps import Steps
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
def describe_producers(
    request: DescribeProducersRequest, context: Context
) -> Steps[DescribeProducersResponse]:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        for index in topic.partition_indexes:
            answer.partitions.append((yield from _describe(topic.name, index, context)))
            yield None
    return response


def _describe(topic: str, index: int, context: Context) -> Steps[PartitionResponse]:
    try:
        log = context.broker.topic(topic).partition(index).log
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code)
    answer = PartitionResponse(partition_index=index)
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
