"""Topic ids (KIP-516), by which a deleted and recreated topic is recognised.

A consumer does not notice it: it continues at its offset in the new topic, and skips the records
before it.
"""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from strom.client.topics import topic_id_text
from strom.connect.api import RetriableError, TopicPartition

_TIMEOUT_S: Final = 5.0
_NO_ID: Final = "A" * 22
"""The zero UUID in base64, which brokers without topic ids send."""
_HAS_NO_ID: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class TopicIdsFuture:
    """Topic ids that were requested from the cluster."""

    def __init__(self, futures: Mapping[str, "Future[Any]"]) -> None:
        self._futures = futures

    def result(self) -> dict[str, str]:
        """The ids of the existing topics; RetriableError if the cluster does not respond."""
        found = {}
        for topic, future in self._futures.items():
            try:
                text = topic_id_text(future.result(_TIMEOUT_S).topic_id)
            except KafkaException as error:
                if error.args[0].code() in _HAS_NO_ID:
                    continue
                raise RetriableError(
                    f"The id of topic {topic} cannot be read: {error.args[0].str()}"
                ) from None
            except TimeoutError:
                raise RetriableError(
                    f"The id of topic {topic} was not received within {_TIMEOUT_S:g} seconds."
                ) from None
            if text != _NO_ID:
                found[topic] = text
        return found


class TopicIds:
    """The ids of the topics that a task reads, as last learned."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._known: dict[str, str] = {}

    def get(self, topic: str) -> str | None:
        """The id of the topic that is read; None if it has none, or reading it is not authorized."""
        return self._known.get(topic)

    def request(self, topics: Collection[str]) -> TopicIdsFuture:
        """Request the present ids; does not wait for the response."""
        if not topics:
            return TopicIdsFuture({})
        names = TopicCollection(sorted(topics))
        return TopicIdsFuture(self._admin.describe_topics(names, request_timeout=_TIMEOUT_S))

    def changed(self, present: Mapping[str, str]) -> set[str]:
        """The topics whose id is not the known one, or was not known."""
        return {topic for topic, one in present.items() if self._known.get(topic) != one}

    def of_same(self, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Leave out offsets of topics that were recreated: they would be committed for the new ones."""
        try:
            changed = self.changed(self.request(topics_of(offsets)).result())
        except RetriableError:
            return offsets
        return {one: offset for one, offset in offsets.items() if one.topic not in changed}

    def forget(self) -> None:
        """Forget all ids: what is read next may be other topics of these names."""
        self._known.clear()

    def learn(self, present: Mapping[str, str]) -> set[str]:
        """Keep these ids; returns the topics that were recreated."""
        recreated = {topic for topic in self.changed(present) if topic in self._known}
        self._known.update(present)
        return recreated


def topics_of(partitions: Iterable[tuple[str, int]]) -> set[str]:
    return {topic for topic, _ in partitions}
