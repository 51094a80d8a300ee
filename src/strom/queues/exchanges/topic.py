"""Topic: keys are words separated by dots; in a pattern `*` is one word, `#` zero or more words.

The patterns form a trie, one step per word. At a step for `#` the match continues from every later word.
"""

from collections.abc import Iterable
from typing import Any, Generic

from strom.queues.exchanges.matcher import Arguments, T

ONE = "*"
ANY = "#"


class _Step(Generic[T]):
    __slots__ = ("bound", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, _Step[T]] = {}
        self.bound: dict[T, int] = {}


class Topic(Generic[T]):
    uses_headers = False

    def __init__(self) -> None:
        self._root: _Step[T] = _Step()

    def bind(self, destination: T, key: str, arguments: Arguments) -> None:
        step = self._root
        for word in _words(key):
            following = step.steps.get(word)
            if following is None:
                following = step.steps[word] = _Step()
            step = following
        step.bound[destination] = step.bound.get(destination, 0) + 1

    def unbind(self, destination: T, key: str, arguments: Arguments) -> None:
        """Remove a pattern, and the steps that only it needed."""
        path = [self._root]
        words = _words(key)
        for word in words:
            path.append(path[-1].steps[word])
        bound = path[-1].bound
        bound[destination] -= 1
        if not bound[destination]:
            del bound[destination]
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
                for word in (words[at], ONE):
                    following = step.steps.get(word)
                    if following is not None:
                        todo.append((following, at + 1))
            after_any = step.steps.get(ANY)
            if after_any is not None:
                todo += [(after_any, later) for later in range(at, len(words) + 1)]
        return found


def _words(key: str) -> list[str]:
    """The words of a key; the empty key has none."""
    return key.split(".") if key else []
