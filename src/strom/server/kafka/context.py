"""What a handler gets besides its request."""

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
    """The address at which clients reach a broker."""

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
        """The client's address, as in `127.0.0.1:40123`."""
        self.on_close = {} if on_close is None else on_close
        """Callbacks for when the client has disconnected, each by a name that its owner chooses."""

    @property
    def broker(self) -> Broker:
        return self.services.broker

    @property
    def groups(self) -> Groups:
        return self.services.groups

    @property
    def shares(self) -> ShareGroups:
        return self.services.shares

    @property
    def transactions(self) -> Transactions:
        return self.services.transactions

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it, with a slash in front."""
        return f"/{self.peer.rpartition(':')[0]}"
