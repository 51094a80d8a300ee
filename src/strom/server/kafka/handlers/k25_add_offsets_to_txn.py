"""AddOffsetsToTxn, api key 25: add the offsets of a group to a transaction.

Behaviour: adds the partition of `__consumer_offsets` that holds the group. Newer clients do not send it:
their TxnOffsetCommit does the same (KIP-890). Versions: 2 PRODUCER_FENCED.
"""

from strom.coordination.transactions.commands import AddPartitions
from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler, known_fencing
from strom.wire.kafka.messages.k25_add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

FIRST_VERSION_WITH_FENCED = 2


@handler(
    AddOffsetsToTxnRequest,
    Needs(Operation.WRITE, Resource.TRANSACTIONAL_ID),
    Needs(Operation.READ, Resource.GROUP),
)
async def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: Context
) -> AddOffsetsToTxnResponse:
    """Add the partition that holds the group's offsets."""
    try:
        await context.groups.topic.ensure()
        partition = context.groups.offsets_partition(request.group_id)
    except ApiError:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = await context.transactions.submit(
        AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            epoch=request.producer_epoch,
            partitions=frozenset({partition}),
        )
    )
    code = known_fencing(answer.code, context, FIRST_VERSION_WITH_FENCED)
    return AddOffsetsToTxnResponse(error_code=code)
