"""InitProducerId, api key 22: an id and an epoch for an idempotent or transactional producer.

Behaviour: without a transactional id every call returns a new id with epoch 0; ids are never reused,
not even after a crash. With one, the previous producer is fenced by a bumped epoch; its open
transaction is aborted first, and the caller must retry (CONCURRENT_TRANSACTIONS). Versions: 3 with the
id and epoch of the caller (KIP-360), 4 PRODUCER_FENCED. Version 6, for two-phase commit (KIP-939), is
not advertised, as in Kafka.
"""

from strom.coordination.transactions.commands import InitProducer
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler, known_fencing
from strom.wire.kafka.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

NO_PRODUCER = -1
FIRST_VERSION_WITH_FENCED = 4


@handler(
    InitProducerIdRequest,
    Needs(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER),
    Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
)
async def init_producer_id(
    request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    half_a_producer = (request.producer_id == NO_PRODUCER) != (
        request.producer_epoch == NO_PRODUCER
    )
    if half_a_producer or request.transactional_id == "":
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    try:
        if request.transactional_id is not None:
            return await _for_transactions(request, request.transactional_id, context)
        producer_id = await context.broker.next_producer_id()
    except ApiError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _for_transactions(
    request: InitProducerIdRequest, transactional_id: str, context: Context
) -> InitProducerIdResponse:
    command = InitProducer(
        transactional_id=transactional_id,
        timeout_ms=request.transaction_timeout_ms,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
    )
    answer = await context.transactions.submit_with_new_id(command)
    code = known_fencing(answer.code, context, FIRST_VERSION_WITH_FENCED)
    return InitProducerIdResponse(
        error_code=code, producer_id=answer.producer_id, producer_epoch=answer.epoch
    )
