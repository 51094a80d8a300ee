"""What every exchange type implements."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

Arguments: TypeAlias = Mapping[str, Any]

T = TypeVar("T")


class Matcher(Protocol[T]):
    """Bindings of one exchange, indexed by what its type matches."""

    uses_headers: bool
    """Whether the result depends on more than the routing key."""

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Add a binding; a destination may have many."""
        ...

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Remove a binding that was added."""
        ...

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        """The destinations of a message; one may occur more than once."""
        ...
