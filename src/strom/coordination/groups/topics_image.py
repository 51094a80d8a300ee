"""The topics, as groups need them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from strom.wire.kafka.schema import Uuid


class TopicInfo(NamedTuple):
    name: str
    id: Uuid
    partitions: int


class TopicsImage(Protocol):
    """The current topics. The coordinator is notified of changes by `on_topics_changed`."""

    def find(self, name: str) -> TopicInfo | None: ...

    def find_id(self, topic_id: Uuid) -> TopicInfo | None: ...

    def __iter__(self) -> Iterator[TopicInfo]: ...


class FixedTopics:
    """A fixed list of topics, for use without a broker."""

    def __init__(self, topics: Iterable[TopicInfo] = ()) -> None:
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.id: topic for topic in self._by_name.values()}

    def find(self, name: str) -> TopicInfo | None:
        return self._by_name.get(name)

    def find_id(self, topic_id: Uuid) -> TopicInfo | None:
        return self._by_id.get(topic_id)

    def __iter__(self) -> Iterator[TopicInfo]:
        return iter(self._by_name.values())
