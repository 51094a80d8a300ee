"""FindCoordinator, api key 10: the coordinator of a group or a transaction.

Behaviour: there is one broker, so it is this one. The first lookup of a group's coordinator creates
`__consumer_offsets`, that of a transaction's `__transaction_state`, that of a share partition's
`__share_group_state`; the response waits for it. Versions: 1 transactions, 4 several keys at once, 6
share groups.
"""

from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP = 0
TRANSACTION = 1
SHARE = 2
FIRST_VERSION_WITH_MANY = 4
FIRST_VERSION_WITH_SHARE = 6


@handler(
    FindCoordinatorRequest,
    Needs(Operation.DESCRIBE, Resource.GROUP),
    Needs(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID),
)
async def find_coordinator(
    request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse:
    """Name this broker for every key."""
    endpoint = context.services.endpoint
    known = request.key_type in (GROUP, TRANSACTION) or (
        request.key_type == SHARE and context.version >= FIRST_VERSION_WITH_SHARE
    )
    code = ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST
    text = "" if known else f"Unknown coordinator type {request.key_type}."
    if known:
        try:
            await _ensure_topic(request.key_type, context)
        except ApiError as error:
            known, code, text = False, ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message
    node, host, port = (endpoint.node_id, endpoint.host, endpoint.port) if known else (-1, "", -1)
    if context.version < FIRST_VERSION_WITH_MANY:
        return FindCoordinatorResponse(
            error_code=code, error_message=text, node_id=node, host=host, port=port
        )
    response = FindCoordinatorResponse()
    pause = context.long_work.pauses()
    for key in request.coordinator_keys:
        await pause()
        response.coordinators.append(
            Coordinator(
                key=key, node_id=node, host=host, port=port, error_code=code, error_message=text
            )
        )
    return response


async def _ensure_topic(key_type: int, context: Context) -> None:
    if key_type == GROUP:
        await context.groups.topic.ensure()
    elif key_type == TRANSACTION:
        await context.transactions.topic.ensure()
    else:
        await context.shares.state_log.ensure_topic()
