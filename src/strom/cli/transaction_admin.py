"""What can be seen of transactions, and done to them, for the command `transactions`."""

import time
from dataclasses import dataclass

from strom.cli.connection import Connection
from strom.cli.wire_client import WireClient
from strom.model.errors import ErrorCode, UserError
from strom.wire.kafka.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
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

TRANSACTION = 1
PAUSE_SECONDS = 0.1
DEADLINE_SECONDS = 30.0
FENCING_TIMEOUT_MS = 60_000
_NOT_YET = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


@dataclass(frozen=True)
class ListedTransaction:
    """A transactional id in a list."""

    name: str
    coordinator: int
    producer_id: int
    state: str


class TransactionAdmin:
    """Asks the brokers that coordinate transactions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        metadata = connection.metadata(connection.admin())
        self._brokers = {
            broker.id: (broker.host, broker.port) for broker in metadata.brokers.values()
        }

    def transactions(self, states: tuple[str, ...] = ()) -> list[ListedTransaction]:
        """All transactional ids, or those in these states, of all brokers."""
        found: list[ListedTransaction] = []
        request = ListTransactionsRequest(state_filters=list(states))
        for broker, (host, port) in self._brokers.items():
            with WireClient(self._connection, host, port) as client:
                answer = client.ask(request, 0, ListTransactionsResponse)
            _check(answer.error_code, "The transactions cannot be listed")
            if answer.unknown_state_filters:
                raise UserError(f"There is no state {answer.unknown_state_filters[0]!r}.")
            found += [
                ListedTransaction(
                    one.transactional_id, broker, one.producer_id, one.transaction_state
                )
                for one in answer.transaction_states
            ]
        return sorted(found, key=lambda one: one.name)

    def describe(self, name: str) -> TransactionState:
        """What its coordinator knows of a transactional id."""
        request = DescribeTransactionsRequest(transactional_ids=[name])
        deadline = time.monotonic() + DEADLINE_SECONDS
        with self._coordinator(name) as client:
            while True:
                (found,) = client.ask(request, 0, DescribeTransactionsResponse).transaction_states
                if found.error_code not in _NOT_YET or time.monotonic() > deadline:
                    break
                time.sleep(PAUSE_SECONDS)
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise UserError(f"There is no transactional id {name}. See: strom transactions list")
        _check(found.error_code, f"Transaction {name} cannot be described")
        return found

    def abort(self, name: str) -> None:
        """End what is open, and fence its producer: it will have to begin anew."""
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS
        )
        deadline = time.monotonic() + DEADLINE_SECONDS
        with self._coordinator(name) as client:
            while True:
                answer = client.ask(request, 4, InitProducerIdResponse)
                if answer.error_code not in _NOT_YET or time.monotonic() > deadline:
                    break
                time.sleep(PAUSE_SECONDS)
        _check(answer.error_code, f"Transaction {name} cannot be aborted")

    def _coordinator(self, name: str) -> WireClient:
        request = FindCoordinatorRequest(key=name, key_type=TRANSACTION)
        host, port = next(iter(self._brokers.values()))
        deadline = time.monotonic() + DEADLINE_SECONDS
        with WireClient(self._connection, host, port) as client:
            while True:
                found = client.ask(request, 3, FindCoordinatorResponse)
                if found.error_code not in _NOT_YET or time.monotonic() > deadline:
                    break
                time.sleep(PAUSE_SECONDS)
        _check(found.error_code, f"Nobody coordinates transaction {name}")
        return WireClient(self._connection, found.host, found.port)


def _check(number: int, what_failed: str) -> None:
    if number != ErrorCode.NONE:
        code = next(one for one in ErrorCode if one == number)
        raise UserError(f"{what_failed}: {code.text} ({code.name})")
