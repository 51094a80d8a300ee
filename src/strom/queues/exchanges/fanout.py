"""Fanout: all bound destinations, regardless of the routing key."""

from collections.abc import Iterable
from typing import Any, Generic

from strom.queues.exchanges.matcher import Arguments, T


class Fanout(Generic[T]):
    """All destinations, with how often each is bound."""

    uses_headers = False

    def __init__(self) -> None:
        self._bound: dict[T, int] = {}

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        self._bound[destination] = self._bound.get(destination, 0) + 1

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        self._bound[destination] -= 1
        if not self._bound[destination]:
            del self._bound[destination]

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        return self._bound
