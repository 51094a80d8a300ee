"""The admin calls for transactions, in Kafka's protocol: librdkafka has none."""

from dataclasses import dataclass

from strom.client.broker_connection import check
from strom.client.factories import KafkaClients
from strom.client.protocol_client import BrokerNode, CoordinatorType
from strom.model.errors import ErrorCode, UserError
from strom.wire.kafka.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from strom.wire.kafka.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from strom.wire.kafka.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

FENCING_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class ListedTransaction:
    """A transactional id in a list."""

    name: str
    coordinator: int
    producer_id: int
    state: str


class TransactionAdmin:
    """The transactional ids of one cluster. Each failure is an ApiError with the broker's code."""

    def __init__(self, connection: KafkaClients) -> None:
        self._wire = connection.protocol_client()

    def transactions(self, states: tuple[str, ...] = ()) -> list[ListedTransaction]:
        """The transactional ids of all brokers, in these states if any are given; sorted."""
        found: list[ListedTransaction] = []
        request = ListTransactionsRequest(state_filters=list(states))
        for node in self._wire.nodes():
            response = self._wire.call(request, ListTransactionsResponse, node)
            check(response.error_code)
            if response.unknown_state_filters:
                raise UserError(f"Unknown transaction state {response.unknown_state_filters[0]!r}.")
            found += [
                ListedTransaction(
                    one.transactional_id, node.id, one.producer_id, one.transaction_state
                )
                for one in response.transaction_states
            ]
        return sorted(found, key=lambda one: one.name)

    def describe(self, name: str) -> TransactionState:
        """The state of a transactional id at its coordinator; UserError if it does not exist."""

        def call(node: BrokerNode) -> TransactionState:
            request = DescribeTransactionsRequest(transactional_ids=[name])
            response = self._wire.call(request, DescribeTransactionsResponse, node)
            (found,) = response.transaction_states
            if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise UserError(
                    f"Transactional id {name} does not exist. See: strom transactions list"
                )
            check(found.error_code)
            return found

        return self._wire.call_coordinator(name, call, of=CoordinatorType.TRANSACTION)

    def abort(self, name: str) -> None:
        """Abort an open transaction and fence its producer, which has to initialize again."""

        def call(node: BrokerNode) -> None:
            request = InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS
            )
            check(self._wire.call(request, InitProducerIdResponse, node).error_code)

        self._wire.call_coordinator(name, call, of=CoordinatorType.TRANSACTION)
