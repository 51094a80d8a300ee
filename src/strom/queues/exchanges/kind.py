"""What every kind of exchange can do."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

Arguments: TypeAlias = Mapping[str, Any]

T = TypeVar("T")


class Matcher(Protocol[T]):
    """Bindings of one exchange, kept so that a message quickly finds those that it matches."""

    uses_headers: bool
    """Whether the result depends on more than the routing key."""

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Add a binding; the same destination may be bound many times over."""
        ...

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Take away a binding that was added."""
        ...

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        """The destinations of a message; one may come more than once."""
        ...
