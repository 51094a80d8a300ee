"""Which topics the names stand for: one that is deleted and recreated has another id.

A consumer does not notice: it goes on at its offset in the new topic, and skips what is before it.
"""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from strom.client.topics import topic_id_text
from strom.connect.api import RetriableError

_ASK_S: Final = 5.0
_NO_ID: Final = "A" * 22
"""What a broker sends that has no ids: sixteen zero bytes."""
_NO_ANSWER: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class AskedIds:
    """Ids that the cluster was asked for."""

    def __init__(self, futures: Mapping[str, "Future[Any]"]) -> None:
        self._futures = futures

    def result(self) -> dict[str, str]:
        """The ids of the topics that there are; RetriableError if the cluster does not respond."""
        found = {}
        for topic, future in self._futures.items():
            try:
                text = topic_id_text(future.result(_ASK_S).topic_id)
            except KafkaException as error:
                if error.args[0].code() in _NO_ANSWER:
                    continue
                raise RetriableError(
                    f"The id of topic {topic} cannot be read: {error.args[0].str()}"
                ) from None
            except TimeoutError:
                raise RetriableError(f"The id of topic {topic} cannot be read in time.") from None
            if text != _NO_ID:
                found[topic] = text
        return found


class TopicIds:
    """The ids of the topics that a task reads, as it last knew them."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._known: dict[str, str] = {}

    def get(self, topic: str) -> str | None:
        """The id of the topic as it is read; None if it has none, or it must not be known."""
        return self._known.get(topic)

    def ask(self, topics: Collection[str]) -> AskedIds:
        """Ask the cluster; the response is waited for by `AskedIds.result`."""
        if not topics:
            return AskedIds({})
        names = TopicCollection(sorted(topics))
        return AskedIds(self._admin.describe_topics(names, request_timeout=_ASK_S))

    def changed(self, present: Mapping[str, str]) -> set[str]:
        """The topics that are others than those known, or were not known."""
        return {topic for topic, one in present.items() if self._known.get(topic) != one}

    def forget(self) -> None:
        """Know none: what is read next may be other topics of these names."""
        self._known.clear()

    def learn(self, present: Mapping[str, str]) -> set[str]:
        """Know these from now on; returns the topics of them that were recreated."""
        recreated = {topic for topic in self.changed(present) if topic in self._known}
        self._known.update(present)
        return recreated


def topics_of(places: Iterable[tuple[str, int]]) -> set[str]:
    """The topics of some partitions."""
    return {topic for topic, _ in places}
