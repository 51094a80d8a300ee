"""Direct: the routing key must equal the binding's."""

from collections.abc import Iterable
from typing import Any, Generic

from strom.queues.exchanges.matcher import Arguments, T


class Direct(Generic[T]):
    """Destinations by routing key."""

    uses_headers = False

    def __init__(self) -> None:
        self._by_key: dict[str, dict[T, int]] = {}

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Add a binding. Arguments are not matched, but bindings that differ in them are counted."""
        bound = self._by_key.setdefault(key, {})
        bound[destination] = bound.get(destination, 0) + 1

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        bound = self._by_key[key]
        bound[destination] -= 1
        if not bound[destination]:
            del bound[destination]
            if not bound:
                del self._by_key[key]

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        return self._by_key.get(key, ())
