"""What groups need to know of the topics that there are."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from strom.wire.kafka.schema import Uuid


class TopicFacts(NamedTuple):
    """A topic as groups see it."""

    name: str
    id: Uuid
    partitions: int


class TopicsImage(Protocol):
    """The topics as they are now. The coordinator is told when they have changed."""

    def find(self, name: str) -> TopicFacts | None:
        """The topic of that name."""

    def find_id(self, topic_id: Uuid) -> TopicFacts | None:
        """The topic with that id."""

    def __iter__(self) -> Iterator[TopicFacts]:
        """Every topic."""


class PlainTopics:
    """Topics from a list, for whoever has no broker."""

    def __init__(self, topics: Iterable[TopicFacts] = ()) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.id: topic for topic in self._by_name.values()}

    def find(self, name: str) -> TopicFacts | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def find_id(self, topic_id: Uuid) -> TopicFacts | None:
        """The topic with that id."""
        return self._by_id.get(topic_id)

    def __iter__(self) -> Iterator[TopicFacts]:
        """Every topic."""
        return iter(self._by_name.values())
