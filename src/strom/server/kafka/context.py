"""What a handler is given besides its request."""

import asyncio
from dataclasses import dataclass

from strom.broker.broker import Broker
from strom.broker.fetch_sessions import FetchSessions
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
    endpoint: Endpoint
    fetch_sessions: FetchSessions
    memory: MemoryPool
    loop: asyncio.AbstractEventLoop


class Context:
    """One request's surroundings."""

    __slots__ = ("client_id", "services", "version")

    def __init__(self, services: Services, version: int, client_id: str | None) -> None:
        self.services = services
        self.version = version
        self.client_id = client_id

    @property
    def broker(self) -> Broker:
        """The broker that serves this request."""
        return self.services.broker
