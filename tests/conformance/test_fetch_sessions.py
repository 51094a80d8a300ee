"""Fetch sessions: the broker remembers what a consumer reads, and answers only what is new."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.batches import batch, read_batches
from tests.conformance.calls import Topic, fetch_fields, produce
from tests.conformance.raw import RawClient

PAIR = batch(b"first", b"second")
NEW_SESSION, NO_SESSION = 0, -1
BY_NAME, BY_ID = 12, 18
Partitions = dict[int, Any]


class Session:
    """A consumer's side of a session: sends the next epoch by itself."""

    def __init__(self, client: RawClient, version: int) -> None:
        self.client = client
        self.version = version
        self.id = 0
        self.epoch = NEW_SESSION

    def fetch(self, changes: dict[Topic, dict[int, int]] | None = None, forget: Any = ()) -> Any:
        """Fetch with changed positions, `{topic: {partition: offset}}`, and forgetting some."""
        fields = fetch_fields(Topic("", None), session_id=self.id, session_epoch=self.epoch)
        fields["topics"] = [
            {"topic": topic.name, "topic_id": topic.id, "partitions": _positions(offsets)}
            for topic, offsets in (changes or {}).items()
        ]
        fields["forgotten_topics_data"] = [
            {"topic": topic.name, "topic_id": topic.id, "partitions": partitions}
            for topic, partitions in forget
        ]
        answer = self.client.call("fetch", self.version, **fields)
        if answer.error_code == ErrorCode.none:
            self.id = answer.session_id
            self.epoch += 1
        return answer


def _positions(offsets: dict[int, int]) -> list[dict[str, int]]:
    return [
        {
            "partition": partition,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        for partition, offset in offsets.items()
    ]


def _answered(answer: Any) -> Partitions:
    assert answer.error_code == ErrorCode.none
    return {one.partition_index: one for topic in answer.responses for one in topic.partitions}


@pytest.fixture(params=[BY_NAME, BY_ID], ids=["by name", "by id"])
def session(client: RawClient, request: pytest.FixtureRequest) -> Session:
    return Session(client, request.param)


@pytest.fixture
def filled(client: RawClient, make_topic: Callable[..., Topic]) -> Topic:
    """Partition 0 holds two records, partition 1 none."""
    topic = make_topic(2)
    produce(client, topic, PAIR)
    return topic


def test_a_new_session_answers_every_partition(session: Session, filled: Topic) -> None:
    answer = session.fetch({filled: {0: 0, 1: 0}})
    assert answer.session_id > 0
    found = _answered(answer)
    assert len(read_batches(found[0].records)) == 1
    assert (found[1].high_watermark, found[1].records) == (0, b"")


def test_an_incremental_fetch_answers_only_partitions_with_news(
    session: Session, filled: Topic
) -> None:
    session.fetch({filled: {0: 0, 1: 0}})
    again = _answered(session.fetch())
    assert list(again) == [0]
    assert len(read_batches(again[0].records)) == 1
    assert _answered(session.fetch({filled: {0: 2}})) == {}
    produce(session.client, filled, PAIR, partition=1)
    news = _answered(session.fetch())
    assert list(news) == [1]
    assert news[1].high_watermark == 2


def test_the_session_id_stays_the_same(session: Session, filled: Topic) -> None:
    first = session.fetch({filled: {0: 0}}).session_id
    assert session.fetch().session_id == first


def test_a_forgotten_partition_is_no_longer_answered(session: Session, filled: Topic) -> None:
    session.fetch({filled: {0: 0, 1: 0}})
    assert _answered(session.fetch(forget=[(filled, [0])])) == {}


def test_a_partition_can_be_added(
    session: Session, filled: Topic, make_topic: Callable[..., Topic]
) -> None:
    other = make_topic(4)
    session.fetch({filled: {0: 2}})
    produce(session.client, other, PAIR, partition=3)
    added = _answered(session.fetch({other: {3: 0}}))
    assert list(added) == [3]
    assert len(read_batches(added[3].records)) == 1


def test_an_unknown_topic_is_answered_again_and_again(client: RawClient, filled: Topic) -> None:
    session = Session(client, BY_NAME)
    session.fetch({filled: {0: 2}})
    for changes in ({Topic("nowhere", None): {5: 0}}, None):
        found = _answered(session.fetch(changes))
        assert found[5].error_code == ErrorCode.unknown_topic_or_partition


def test_an_unknown_topic_id_is_an_error_of_its_partitions(
    client: RawClient, filled: Topic
) -> None:
    session = Session(client, BY_ID)
    found = _answered(session.fetch({filled: {0: 2}, Topic("", uuid4()): {5: 0}}))
    assert found[0].error_code == ErrorCode.none
    assert found[5].error_code == ErrorCode.unknown_topic_id


def test_a_wrong_epoch_is_refused(session: Session, filled: Topic) -> None:
    session.fetch({filled: {0: 0}})
    session.epoch = 7
    answer = session.fetch()
    assert (answer.error_code, answer.responses) == (ErrorCode.invalid_fetch_session_epoch, ())
    session.epoch = 1
    assert session.fetch().error_code == ErrorCode.none


def test_an_unknown_session_is_refused(session: Session) -> None:
    session.id, session.epoch = 12345, 1
    answer = session.fetch()
    assert (answer.error_code, answer.responses) == (ErrorCode.fetch_session_id_not_found, ())


def test_a_session_ends_with_the_final_epoch(session: Session, filled: Topic) -> None:
    old_id = session.fetch({filled: {0: 0}}).session_id
    session.epoch = NO_SESSION
    assert session.fetch().session_id == 0
    session.id, session.epoch = old_id, 1
    assert session.fetch().error_code == ErrorCode.fetch_session_id_not_found


def test_epoch_0_replaces_the_session_by_a_new_one(session: Session, filled: Topic) -> None:
    old_id = session.fetch({filled: {0: 0}}).session_id
    session.epoch = NEW_SESSION
    assert session.fetch({filled: {0: 0}}).session_id not in {0, old_id}
    session.id, session.epoch = old_id, 1
    assert session.fetch().error_code == ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("count", [1, 60])
def test_a_session_ends_when_all_its_partitions_are_forgotten(
    client: RawClient, make_topic: Callable[..., Topic], count: int
) -> None:
    topic, session = make_topic(count), Session(client, BY_NAME)
    old_id = session.fetch({topic: dict.fromkeys(range(count), 0)}).session_id
    answer = session.fetch(forget=[(topic, list(range(count)))])
    assert (answer.error_code, answer.session_id, answer.responses) == (ErrorCode.none, 0, ())
    session.id = old_id
    assert session.fetch().error_code == ErrorCode.fetch_session_id_not_found


def test_without_a_session_the_id_is_0(session: Session, filled: Topic) -> None:
    session.epoch = NO_SESSION
    answer = session.fetch({filled: {0: 0, 1: 0}})
    assert (answer.session_id, list(_answered(answer))) == (0, [0, 1])


def test_a_session_cannot_change_between_names_and_ids(client: RawClient, filled: Topic) -> None:
    session = Session(client, BY_ID)
    session.fetch({filled: {0: 0}})
    session.version = BY_NAME
    assert session.fetch().error_code == ErrorCode.fetch_session_topic_id_error


def test_an_incremental_fetch_waits_for_news(client: RawClient, filled: Topic) -> None:
    session = Session(client, BY_NAME)
    session.fetch({filled: {0: 2}})
    fields = fetch_fields(
        filled, min_bytes=1, max_wait_ms=100, session_id=session.id, session_epoch=1
    )
    answer = client.call("fetch", BY_NAME, **(fields | {"topics": ()}))
    assert (answer.error_code, answer.responses) == (ErrorCode.none, ())
