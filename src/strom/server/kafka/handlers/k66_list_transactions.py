"""ListTransactions, api key 66: the transactional ids that match the filters.

Behaviour: a pattern has RE2's syntax and is matched in time that cannot explode; as with topics, it
finds names of letters, digits, `.`, `_` and `-` only. Versions: 1 filter by duration (KIP-994), 2
filter by pattern.
"""

from strom.coordination.groups.consumer.topic_pattern import TopicPattern
from strom.coordination.transactions.records import TransactionMetadata
from strom.coordination.transactions.states import TransactionState as State
from strom.model.errors import ApiError
from strom.model.steps import Steps
from strom.server.kafka.api import Context, Needs, Operation, Resource, handler
from strom.wire.kafka.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

NEVER_HERE = frozenset({"Dead", "PrepareEpochFence"})
"""States of Kafka that never occur here; a filter may name them."""


@handler(ListTransactionsRequest, Needs(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID))
def list_transactions(
    request: ListTransactionsRequest, context: Context
) -> Steps[ListTransactionsResponse]:
    """The transactions that match all given filters."""
    known_states = {state.value for state in State} | NEVER_HERE
    known = list(context.transactions.look().transactions())
    if request.transactional_id_pattern:
        try:
            pattern = TopicPattern(request.transactional_id_pattern)
            matching = pattern.matching(one.transactional_id for one in known)
        except ApiError as error:
            return ListTransactionsResponse(error_code=error.code)
        known = [one for one in known if one.transactional_id in matching]
    now_ms = context.broker.clock.now_ms()
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in known_states]
    )
    for one in known:
        yield None
        if _passes(one, request, now_ms):
            response.transaction_states.append(
                TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state.value,
                )
            )
    return response


def _passes(one: TransactionMetadata, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and one.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and one.state.value not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - one.started_ms > request.duration_filter
