"""Headers: match the message's headers with the binding's arguments, all or any of them (`x-match`).

A value of None in a binding requires only that the header is present. Arguments whose names begin with
`x-` are ignored, unless `x-match` ends in `-with-x`.
"""

from collections.abc import Iterable
from typing import Any, Generic

from strom.queues.errors import precondition_failed
from strom.queues.exchanges.matcher import Arguments, T

MATCH = "x-match"
FORMS = ("all", "any", "all-with-x", "any-with-x")


class Headers(Generic[T]):
    """Destinations with the headers that each binding requires."""

    uses_headers = True

    def __init__(self) -> None:
        self._bound: list[tuple[T, bool, dict[str, Any], Arguments]] = []

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        form = arguments.get(MATCH, "all")
        check_form(arguments)
        wanted = {
            name: value
            for name, value in arguments.items()
            if name != MATCH and (form.endswith("-with-x") or not name.startswith("x-"))
        }
        self._bound.append((destination, form.startswith("all"), wanted, dict(arguments)))

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        for index, (bound, _, _, asked) in enumerate(self._bound):
            if bound == destination and asked == arguments:
                del self._bound[index]
                return
        raise KeyError(key)

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        for destination, is_all, wanted, _ in self._bound:
            agree = (
                name in headers and (value is None or _equal(headers[name], value))
                for name, value in wanted.items()
            )
            if all(agree) if is_all else any(agree):
                yield destination


def check_form(arguments: Arguments) -> None:
    """Raise PRECONDITION_FAILED for an unknown `x-match`."""
    form = arguments.get(MATCH, "all")
    if form not in FORMS:
        raise precondition_failed(f"invalid x-match {form!r}: it must be one of {', '.join(FORMS)}")


def _equal(one: Any, other: Any) -> bool:
    """Equal in value and type: in AMQP, True is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
