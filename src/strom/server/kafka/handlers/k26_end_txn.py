"""EndTxn, api key 26: commit or abort a transaction.

Behaviour: the response comes when the decision is durable and every partition has its marker, so that
committed records are visible and the next transaction can begin at once. (Kafka responds after the
decision; its clients may have to retry.) Versions: 2 PRODUCER_FENCED, 5 the response has a bumped epoch
(KIP-890), so that no late batch becomes part of the next transaction.
"""

from strom.coordination.transactions.commands import EndTransaction
from strom.model.errors import ApiError
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler, known_fencing
from strom.wire.kafka.messages.k26_end_txn import EndTxnRequest, EndTxnResponse

FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_THAT_BUMPS = 5


@handler(EndTxnRequest, Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID))
async def end_txn(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    command = EndTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        commit=request.committed,
        bumps_epoch=context.version >= FIRST_VERSION_THAT_BUMPS,
    )
    try:
        answer = await context.transactions.submit_with_new_id(command)
    except ApiError as error:
        return EndTxnResponse(error_code=error.code)
    code = known_fencing(answer.code, context, FIRST_VERSION_WITH_FENCED)
    return EndTxnResponse(
        error_code=code, producer_id=answer.producer_id, producer_epoch=answer.epoch
    )
