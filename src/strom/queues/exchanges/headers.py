"""Headers: the message's headers against the binding's arguments, `x-match` says how many must agree.

A binding's value of None asks only that the header is there. Arguments whose names begin with `x-` are
left out, unless `x-match` is one of the forms that end in `-with-x`.
"""

from collections.abc import Iterable
from typing import Any, Generic

from strom.queues.errors import precondition_failed
from strom.queues.exchanges.kind import Arguments, T

MATCH = "x-match"
FORMS = ("all", "any", "all-with-x", "any-with-x")


class Headers(Generic[T]):
    """Destinations with what each binding asks for."""

    uses_headers = True

    def __init__(self) -> None:
        self._bound: list[tuple[T, bool, dict[str, Any], Arguments]] = []

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Add a binding."""
        form = arguments.get(MATCH, "all")
        check_form(arguments)
        wanted = {
            name: value
            for name, value in arguments.items()
            if name != MATCH and (form.endswith("-with-x") or not name.startswith("x-"))
        }
        self._bound.append((destination, form.startswith("all"), wanted, dict(arguments)))

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Take one away."""
        for index, (bound, _, _, asked) in enumerate(self._bound):
            if bound == destination and asked == arguments:
                del self._bound[index]
                return
        raise KeyError(key)

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        """Whose wishes the headers fulfil."""
        for destination, is_all, wanted, _ in self._bound:
            agree = (
                name in headers and (value is None or _equal(headers[name], value))
                for name, value in wanted.items()
            )
            if all(agree) if is_all else any(agree):
                yield destination


def check_form(arguments: Arguments) -> None:
    """Refuse an `x-match` that there is not."""
    form = arguments.get(MATCH, "all")
    if form not in FORMS:
        raise precondition_failed(f"invalid x-match {form!r}: it must be one of {', '.join(FORMS)}")


def _equal(one: Any, other: Any) -> bool:
    """Equal in value and in kind: True is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
