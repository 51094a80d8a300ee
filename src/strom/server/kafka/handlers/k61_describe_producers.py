"""DescribeProducers, api key 61: the active producers of partitions."""

from strom.model.errors import ApiError
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
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
def describe_producers(request: DescribeProducersRequest, context: Context) -> Outcome:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(topic.name, index, context) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(topic: str, index: int, context: Context) -> PartitionResponse:
    try:
        log = context.broker.topic(topic).partition(index).log
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code)
    return PartitionResponse(
        partition_index=index, active_producers=[_state(one) for one in log.producers()]
    )


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
