"""What a handler is given besides its request."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from strom.broker.broker import Broker
from strom.broker.fetch_sessions import FetchSessions
from strom.broker.groups import Groups
from strom.broker.share_groups import ShareGroups
from strom.broker.transactions import Transactions
from strom.server.memory import MemoryPool


@dataclass(frozen=True)
class Endpoint:
    """Where clients reach a broker."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class Services:
    """What all requests of a server share."""

    broker: Broker
    groups: Groups
    shares: ShareGroups
    transactions: Transactions
    endpoint: Endpoint
    fetch_sessions: FetchSessions
    memory: MemoryPool
    loop: asyncio.AbstractEventLoop


class Context:
    __slots__ = ("client_id", "on_close", "peer", "services", "version")

    def __init__(
        self,
        services: Services,
        version: int,
        client_id: str | None,
        peer: str,
        on_close: dict[object, Callable[[], None]] | None = None,
    ) -> None:
        self.services = services
        self.version = version
        self.client_id = client_id
        self.peer = peer
        """Where the client is, as in `127.0.0.1:40123`."""
        self.on_close = {} if on_close is None else on_close
        """Whoever has to know when the client is gone, by a name of its own choice."""

    @property
    def broker(self) -> Broker:
        """The broker that serves this request."""
        return self.services.broker

    @property
    def groups(self) -> Groups:
        """The groups that this broker coordinates."""
        return self.services.groups

    @property
    def shares(self) -> ShareGroups:
        """The share groups of this broker."""
        return self.services.shares

    @property
    def transactions(self) -> Transactions:
        """The transactions that this broker coordinates."""
        return self.services.transactions

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it, with a slash in front."""
        return f"/{self.peer.rpartition(':')[0]}"
