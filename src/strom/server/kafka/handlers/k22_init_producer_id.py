"""InitProducerId, api key 22: an id for an idempotent producer.

Behaviour: every call gives a new id with epoch 0; ids are never given twice, crashes included.
Not here yet: transactional ids.
"""

from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.context import Context
from strom.server.kafka.registry import Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

NO_PRODUCER = -1


@handler(
    InitProducerIdRequest,
    Needs(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER),
    Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
)
async def init_producer_id(
    request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    """Hand out a producer id."""
    half_a_producer = (request.producer_id == NO_PRODUCER) != (
        request.producer_epoch == NO_PRODUCER
    )
    if half_a_producer or request.transactional_id == "":
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if request.transactional_id is not None:
        return InitProducerIdResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, producer_id=-1, producer_epoch=-1
        )
    try:
        producer_id = await context.broker.next_producer_id()
    except ApiError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
