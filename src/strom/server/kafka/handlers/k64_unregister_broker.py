"""UnregisterBroker, api key 64: remove a broker that was shut down from the cluster.

The only broker is the one that responds, and it has all the data: it cannot be removed.
"""

from strom.model.errors import ErrorCode
from strom.server.kafka.api import Context, Needs, Operation, Outcome, Resource, handler
from strom.wire.kafka.messages.k64_unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


@handler(UnregisterBrokerRequest, Needs(Operation.ALTER, Resource.CLUSTER))
def unregister_broker(request: UnregisterBrokerRequest, context: Context) -> Outcome:
    node = context.services.endpoint.node_id
    if request.broker_id == node:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Broker {node} is the only one and in use; it cannot be unregistered.",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker {request.broker_id} is not registered.",
    )
