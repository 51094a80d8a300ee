"""What a request makes of the state: entries to be written, and the answer. It changes nothing yet."""

from typing import Generic, NamedTuple, TypeVar

from strom.registry.records import Entry

Answer = TypeVar("Answer", covariant=True)


class Change(NamedTuple, Generic[Answer]):
    """The entries that bring a request about, and what is answered when they are safe."""

    entries: list[Entry]
    answer: Answer
