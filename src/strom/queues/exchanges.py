"""The exchange types: which destinations a message matches.

- direct: the routing key must equal the binding's;
- fanout: all bound destinations, regardless of the routing key;
- topic: keys are words separated by dots; in a pattern `*` is one word, `#` zero or more words;
- headers: the message's headers match the binding's arguments, all or any of them (`x-match`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from strom.queues.errors import precondition_failed

Arguments: TypeAlias = Mapping[str, Any]

ONE_WORD = "*"
ANY_WORDS = "#"
MATCH = "x-match"
FORMS = ("all", "any", "all-with-x", "any-with-x")

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


class _Bound(dict[T, int]):
    """Destinations, with how often each is bound: bindings may differ in their arguments only."""

    def add(self, destination: T) -> None:
        self[destination] = self.get(destination, 0) + 1

    def discard(self, destination: T) -> None:
        self[destination] -= 1
        if not self[destination]:
            del self[destination]


class Direct(Generic[T]):
    uses_headers = False

    def __init__(self) -> None:
        self._by_key: dict[str, _Bound[T]] = {}

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        self._by_key.setdefault(key, _Bound()).add(destination)

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        bound = self._by_key[key]
        bound.discard(destination)
        if not bound:
            del self._by_key[key]

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        return self._by_key.get(key, ())


class Fanout(Generic[T]):
    uses_headers = False

    def __init__(self) -> None:
        self._bound: _Bound[T] = _Bound()

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        self._bound.add(destination)

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        self._bound.discard(destination)

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        return self._bound


class _Step(Generic[T]):
    __slots__ = ("bound", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, _Step[T]] = {}
        self.bound: _Bound[T] = _Bound()


class Topic(Generic[T]):
    """The patterns form a trie, one step per word.

    At a step for `#` the match continues from every later word.
    """

    uses_headers = False

    def __init__(self) -> None:
        self._root: _Step[T] = _Step()

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        step = self._root
        for word in _words(key):
            step = step.steps.setdefault(word, _Step())
        step.bound.add(destination)

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Remove a pattern, and the steps that only it needed."""
        path = [self._root]
        words = _words(key)
        for word in words:
            path.append(path[-1].steps[word])
        path[-1].bound.discard(destination)
        for word, step, parent in zip(reversed(words), path[:0:-1], path[-2::-1], strict=True):
            if step.bound or step.steps:
                break
            del parent.steps[word]

    def match(self, key: str, headers: dict[str, Any]) -> Iterable[T]:
        """The destinations of every pattern that matches the key."""
        found: dict[T, None] = {}
        words = _words(key)
        seen: set[tuple[int, int]] = set()
        todo = [(self._root, 0)]
        while todo:
            step, at = todo.pop()
            if (id(step), at) in seen:
                continue
            seen.add((id(step), at))
            if at == len(words):
                found.update(dict.fromkeys(step.bound))
            else:
                for word in (words[at], ONE_WORD):
                    following = step.steps.get(word)
                    if following is not None:
                        todo.append((following, at + 1))
            after_any = step.steps.get(ANY_WORDS)
            if after_any is not None:
                todo += [(after_any, later) for later in range(at, len(words) + 1)]
        return found


def _words(key: str) -> list[str]:
    """The words of a key; the empty key has none."""
    return key.split(".") if key else []


class Headers(Generic[T]):
    """Destinations with the headers that each binding requires.

    A value of None in a binding requires only that the header is present. Arguments whose names begin
    with `x-` are ignored, unless `x-match` ends in `-with-x`.
    """

    uses_headers = True

    def __init__(self) -> None:
        self._bound: list[tuple[T, bool, dict[str, Any], Arguments]] = []

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        form = check_form(arguments)
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


def check_form(arguments: Arguments) -> str:
    """The `x-match` of a binding; raise PRECONDITION_FAILED if it is unknown."""
    form = arguments.get(MATCH, "all")
    if form not in FORMS:
        raise precondition_failed(f"invalid x-match {form!r}: it must be one of {', '.join(FORMS)}")
    return str(form)


def _equal(one: Any, other: Any) -> bool:
    """Equal in value and type: in AMQP, True is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
