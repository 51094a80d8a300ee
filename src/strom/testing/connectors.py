"""A conformance suite for connectors, which runs without a broker.

Derive a test class from `SourceLaws` or `SinkLaws`, implement how the external system is filled and read,
and pytest runs the suite:

```python
class TestMyFileSource(SourceLaws):
    connector = MyFileSource

    def settings(self, folder):
        return {"file": str(folder / "in.txt"), "topic": "lines"}

    def seed(self, folder, items):
        with (folder / "in.txt").open("a") as file:
            file.writelines(f"{item}\\n" for item in items)

    def item(self, record):
        return int(record.value)
```

`SourceDriver` and `SinkDriver` call tasks as the runtime does, for your own tests.
"""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from strom.connect.api import (
    InvalidSettings,
    RetriableError,
    Schema,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TopicPartition,
)
from strom.model.retries import RetryPolicy
from strom.supervision.retrying import retry

PATIENCE_S = 20.0
"""How long a test waits for records, and retries a RetriableError."""
QUIET_POLL_S = 2.5
"""A poll without records returns within a second; this allows for a busy machine."""
STOP_S = 5.0
TOPIC = "laws"
PARTITION = TopicPartition(TOPIC, 0)


class StoredOffsets:
    """The content of a source's offsets topic; it outlives the task, as the topic does."""

    def __init__(self) -> None:
        self._offsets: dict[str, str] = {}

    def get(self, source_partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The offset up to which a partition was delivered; None if nothing was."""
        text = self._offsets.get(_as_key(source_partition))
        return None if text is None else json.loads(text)

    def keep(self, records: Sequence[SourceRecord]) -> list[tuple[Any, Any]]:
        """Store the offsets of delivered records, as JSON; returns the last of each partition."""
        return self.keep_pairs([(one.source_partition, one.source_offset) for one in records])

    def keep_pairs(
        self, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
    ) -> list[tuple[Any, Any]]:
        """Store (source partition, source offset) pairs, as JSON; returns the last of each partition."""
        last: dict[str, tuple[Any, Any]] = {}
        for partition, offset in pairs:
            last[_as_key(partition)] = (partition, offset)
        for key, (_, offset) in last.items():
            self._offsets[key] = json.dumps(offset)
        return list(last.values())


class _SourceContext:
    def __init__(self, offsets: StoredOffsets) -> None:
        self.stopping = threading.Event()
        self._offsets = offsets

    def offset(self, source_partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._offsets.get(source_partition)


class _SinkContext:
    def __init__(
        self, connector: str, topic_id: str | None, end_offsets: Mapping[TopicPartition, int]
    ) -> None:
        self.stopping = threading.Event()
        self.connector = connector
        self.paused: set[TopicPartition] = set()
        self._topic_id = topic_id
        self._end_offsets = end_offsets

    def topic_id(self, topic: str) -> str | None:
        return self._topic_id

    def end_offset(self, partition: TopicPartition) -> int:
        return self._end_offsets.get(partition, 0)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused.difference_update(partitions)


class SourceDriver:
    """Runs all tasks of a source connector in this thread, in turn."""

    def __init__(
        self,
        connector: type[SourceConnector[Any]],
        settings: Mapping[str, str],
        offsets: StoredOffsets | None = None,
        *,
        max_tasks: int = 1,
    ) -> None:
        self.offsets = StoredOffsets() if offsets is None else offsets
        self.context = _SourceContext(self.offsets)
        made = connector(connector.settings_class.read(settings))
        self.tasks: list[SourceTask[Any]] = [
            connector.task_class(connector.settings_class.read({**settings, **extra}), self.context)
            for extra in made.task_settings(max_tasks)
        ]

    def start(self) -> None:
        """Start every task; a RetriableError is retried for PATIENCE_S."""
        for task in self.tasks:
            _until_it_works(task.start)

    def poll(self) -> list[SourceRecord]:
        """Poll every task once; the records count as not delivered."""
        return [record for task in self.tasks for record in _until_it_works(task.poll) or ()]

    def read(self, count: int, *, deliver: bool = True) -> list[SourceRecord]:
        """Poll until `count` records arrived or PATIENCE_S passed; deliver each poll before the next."""
        records: list[SourceRecord] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(records) < count and time.monotonic() < deadline:
            for task in self.tasks:
                polled = list(_until_it_works(task.poll) or ())
                records += polled
                if deliver and polled:
                    task.delivered(self.offsets.keep(polled))
        return records

    def store_idle_offsets(self) -> None:
        """Store the offsets that tasks report without records; all records must be delivered before."""
        for task in self.tasks:
            pairs = task.idle_offsets()
            if pairs:
                task.delivered(self.offsets.keep_pairs(pairs))

    def stop(self) -> None:
        """Signal `context.stopping`, then stop every task."""
        self.context.stopping.set()
        for task in self.tasks:
            task.stop()


class SinkDriver:
    """Runs one task of a sink connector in this thread.

    `topic_id` is the id of all topics; another id stands for recreated topics.
    """

    def __init__(
        self,
        connector: type[SinkConnector[Any]],
        settings: Mapping[str, str],
        *,
        name: str = "laws",
        topic_id: str | None = "topic-1",
        end_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        made = connector(connector.settings_class.read(settings))
        extra = made.task_settings(1)[0]
        self.context = _SinkContext(name, topic_id, end_offsets or {})
        self.task: SinkTask[Any] = connector.task_class(
            connector.settings_class.read({**settings, **extra}), self.context
        )

    def start(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Start the task and assign its partitions; returns the positions that it resumes from."""
        _until_it_works(self.task.start)
        positions: Mapping[TopicPartition, int] = _until_it_works(
            lambda: self.task.open(partitions)
        )
        return positions

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Put records; the same batch again while the task raises RetriableError."""
        _until_it_works(lambda: self.task.put(records))

    def flush(self, ends: Mapping[TopicPartition, int] | None = None) -> None:
        """Flush; `ends` are the offsets after the last record that was put or skipped."""
        if ends is not None:
            self.task.advance(ends)
        _until_it_works(self.task.flush)

    def stop(self, partitions: Sequence[TopicPartition] = ()) -> None:
        """Revoke the partitions and stop the task."""
        self.context.stopping.set()
        if partitions:
            self.task.close(partitions)
        self.task.stop()


class _SettingsLaws(ABC):
    """The tests of settings, for sources and sinks."""

    connector: ClassVar[type[Any]]
    misspelt: ClassVar[tuple[str, str] | None] = None
    """A misspelt setting and its correct name; by default the last letter of one is removed."""

    @abstractmethod
    def settings(self, folder: Path) -> Mapping[str, str]:
        """The connector's settings, for an external system that lives in this folder."""

    def take_away(self, folder: Path) -> bool:
        """Make the external system unreachable. False (the default) skips the test."""
        return False

    def bring_back(self, folder: Path) -> None:
        """Make the external system reachable again, after `take_away`."""
        raise NotImplementedError

    def test_an_unknown_setting_is_refused_with_the_nearest_right_one(self, tmp_path: Path) -> None:
        good = dict(self.settings(tmp_path))
        right = next(name for name in good if len(name) > 3)
        wrong = right[:-1]
        if self.misspelt is not None:
            wrong, right = self.misspelt
        with pytest.raises(InvalidSettings) as refused:
            self.connector.settings_class.read({**good, wrong: "x"})
        assert wrong in refused.value.problems
        assert right in str(refused.value)

    def test_a_missing_required_setting_is_refused_by_its_name(self, tmp_path: Path) -> None:
        good = self.settings(tmp_path)
        definitions = self.connector.settings_class.definitions()
        required = [name for name in good if getattr(definitions.get(name), "required", False)]
        for name in required:
            less = {one: text for one, text in good.items() if one != name}
            with pytest.raises(InvalidSettings) as refused:
                self.connector.settings_class.read(less)
            assert name in refused.value.problems

    def test_passwords_are_not_shown(self, tmp_path: Path) -> None:
        definitions = self.connector.settings_class.definitions()
        secrets = [
            name for name, definition in definitions.items() if definition.kind.name == "PASSWORD"
        ]
        texts = {**self.settings(tmp_path), **dict.fromkeys(secrets, "s3cr3t-word")}
        assert "s3cr3t-word" not in repr(self.connector.settings_class.read(texts))


class SourceLaws(_SettingsLaws):
    """The suite for sources. The external system lives in, or is named after, the test's folder."""

    connector: ClassVar[type[SourceConnector[Any]]]
    ordered: ClassVar[bool] = True
    """Whether records arrive in the order in which they were seeded."""

    @abstractmethod
    def seed(self, folder: Path, items: Sequence[int]) -> None:
        """Add these numbered items to the external system, after the existing ones."""

    @abstractmethod
    def item(self, record: SourceRecord) -> int:
        """Which of the seeded items a record carries."""

    @contextmanager
    def _running(
        self, folder: Path, offsets: StoredOffsets | None = None
    ) -> Iterator[SourceDriver]:
        driver = SourceDriver(self.connector, self.settings(folder), offsets)
        driver.start()
        try:
            yield driver
        finally:
            driver.stop()

    def _same(self, records: Sequence[SourceRecord], items: Sequence[int]) -> None:
        found = [self.item(record) for record in records]
        assert (found if self.ordered else sorted(found)) == list(items)

    def test_what_is_there_comes_out_once_and_in_order(self, tmp_path: Path) -> None:
        self.seed(tmp_path, range(25))
        with self._running(tmp_path) as driver:
            self._same(driver.read(25), range(25))
            assert driver.poll() == []

    def test_what_comes_later_is_found(self, tmp_path: Path) -> None:
        self.seed(tmp_path, range(3))
        with self._running(tmp_path) as driver:
            self._same(driver.read(3), range(3))
            self.seed(tmp_path, range(3, 8))
            self._same(driver.read(5), range(3, 8))

    def test_a_restart_goes_on_after_the_last_delivered_record(self, tmp_path: Path) -> None:
        self.seed(tmp_path, range(10))
        with self._running(tmp_path) as first:
            self._same(first.read(10), range(10))
        self.seed(tmp_path, range(10, 15))
        with self._running(tmp_path, first.offsets) as second:
            self._same(second.read(5), range(10, 15))
            assert second.poll() == []

    def test_what_was_read_but_not_delivered_is_read_again(self, tmp_path: Path) -> None:
        self.seed(tmp_path, range(10))
        with self._running(tmp_path) as first:
            assert first.poll() or first.read(1, deliver=False)
        with self._running(tmp_path, first.offsets) as second:
            self._same(second.read(10), range(10))

    def test_offsets_are_json_and_lead_on_from_every_single_record(self, tmp_path: Path) -> None:
        self.seed(tmp_path, range(6))
        with self._running(tmp_path) as first:
            records = first.read(6, deliver=False)
        if not self.connector.exactly_once:
            pytest.skip("this source is at least once")
        offsets = StoredOffsets()
        offsets.keep(records[:4])
        with self._running(tmp_path, offsets) as second:
            self._same(second.read(2), [self.item(record) for record in records[4:]])

    def test_a_poll_with_nothing_to_give_returns_soon(self, tmp_path: Path) -> None:
        self.seed(tmp_path, range(2))
        with self._running(tmp_path) as driver:
            driver.read(2)
            began = time.monotonic()
            assert driver.poll() == []
            assert time.monotonic() - began < QUIET_POLL_S

    def test_stop_ends_a_poll_that_waits(self, tmp_path: Path) -> None:
        self.seed(tmp_path, range(2))
        with self._running(tmp_path) as driver:
            driver.read(2)
            polling = threading.Thread(target=driver.poll)
            polling.start()
            driver.context.stopping.set()
            polling.join(STOP_S)
            assert not polling.is_alive()

    def test_a_source_that_is_away_is_waited_for(self, tmp_path: Path) -> None:
        self.seed(tmp_path, range(3))
        if not self.take_away(tmp_path):
            pytest.skip("this other side cannot be taken away")
        driver = SourceDriver(self.connector, self.settings(tmp_path))
        try:
            assert _is_waited_for(driver.tasks[0].start, driver.tasks[0].poll)
            self.bring_back(tmp_path)
            driver.start()
            self._same(driver.read(3), range(3))
        finally:
            driver.stop()


class SinkLaws(_SettingsLaws):
    """The suite for sinks. The external system lives in, or is named after, the test's folder."""

    connector: ClassVar[type[SinkConnector[Any]]]
    exactly_once: ClassVar[bool] = False
    """Whether it stores positions together with the data."""
    ordered: ClassVar[bool] = True
    """Whether `stored` returns the items in the order in which they were put."""

    @abstractmethod
    def value(self, item: int) -> tuple[Schema | None, Any]:
        """The value of a record that carries this item."""

    def key(self, item: int) -> tuple[Schema | None, Any]:
        """The key of a record that carries this item; none by default."""
        return None, None

    @abstractmethod
    def stored(self, folder: Path) -> Sequence[int]:
        """The items that are durable in the external system, read without the task."""

    def record(self, item: int, *, partition: int = 0) -> SinkRecord:
        """The record of an item; its offset is the item."""
        value_schema, value = self.value(item)
        key_schema, key = self.key(item)
        return SinkRecord(
            TOPIC, partition, item, value, value_schema, key, key_schema, 1_700_000_000_000 + item
        )

    def _driver(self, folder: Path, topic_id: str = "topic-1") -> tuple[SinkDriver, int]:
        driver = SinkDriver(self.connector, self.settings(folder), topic_id=topic_id)
        positions = driver.start([PARTITION])
        return driver, positions.get(PARTITION, 0)

    def _put(self, driver: SinkDriver, items: Sequence[int]) -> None:
        driver.put([self.record(item) for item in items])

    def _finish(self, driver: SinkDriver, items: Sequence[int]) -> None:
        """Put, flush, and stop in order."""
        self._put(driver, items)
        driver.flush()
        driver.stop([PARTITION])

    def _same(self, folder: Path, items: Sequence[int]) -> None:
        found = list(self.stored(folder))
        assert (found if self.ordered else sorted(found)) == list(items)

    def test_what_is_put_is_stored_in_order(self, tmp_path: Path) -> None:
        driver, _ = self._driver(tmp_path)
        for begin in range(0, 30, 10):
            self._put(driver, range(begin, begin + 10))
        driver.flush()
        driver.stop([PARTITION])
        self._same(tmp_path, range(30))

    def test_what_was_flushed_is_there_though_the_task_dies(self, tmp_path: Path) -> None:
        driver, _ = self._driver(tmp_path)
        self._put(driver, range(10))
        driver.flush()
        self._same(tmp_path, range(10))
        driver.stop()

    def test_nothing_to_put_is_nothing(self, tmp_path: Path) -> None:
        driver, _ = self._driver(tmp_path)
        driver.put([])
        driver.flush()
        self._finish(driver, range(1))
        self._same(tmp_path, range(1))

    def test_a_restart_goes_on_where_the_last_flush_ended(self, tmp_path: Path) -> None:
        first, _ = self._driver(tmp_path)
        self._finish(first, range(10))
        second, position = self._driver(tmp_path)
        if self.exactly_once:
            assert position == 10
        self._finish(second, range(10, 20))
        self._same(tmp_path, range(20))

    def test_a_batch_that_is_repeated_after_a_crash_changes_nothing(self, tmp_path: Path) -> None:
        if not self.exactly_once:
            pytest.skip("this sink is at least once")
        first, _ = self._driver(tmp_path)
        self._put(first, range(10))
        first.flush()
        self._put(first, range(10, 20))
        _abandon(first)
        second, position = self._driver(tmp_path)
        assert 10 <= position <= 20
        self._finish(second, range(position, 25))
        self._same(tmp_path, range(25))

    def test_a_restart_goes_on_behind_skipped_records(self, tmp_path: Path) -> None:
        if not self.exactly_once:
            pytest.skip("this sink stores no positions")
        first, _ = self._driver(tmp_path)
        self._put(first, range(10))
        first.flush({PARTITION: 15})
        first.flush({PARTITION: 20})
        first.stop([PARTITION])
        second, position = self._driver(tmp_path)
        assert position == 20
        self._put(second, range(20, 25))
        second.flush({PARTITION: 25})
        second.stop([PARTITION])
        self._same(tmp_path, [*range(10), *range(20, 25)])

    def test_a_recreated_topic_is_stored_from_its_beginning(self, tmp_path: Path) -> None:
        if not self.exactly_once:
            pytest.skip("this sink stores no positions")
        first, _ = self._driver(tmp_path)
        self._finish(first, range(10))
        second, position = self._driver(tmp_path, "topic-2")
        assert position == 0
        second.put([self.record(10 + offset)._replace(offset=offset) for offset in range(15)])
        second.flush()
        second.stop([PARTITION])
        self._same(tmp_path, range(25))
        third, position = self._driver(tmp_path, "topic-2")
        third.stop([PARTITION])
        assert position == 15

    def test_stop_without_a_flush_ends_soon(self, tmp_path: Path) -> None:
        driver, _ = self._driver(tmp_path)
        self._put(driver, range(5))
        began = time.monotonic()
        driver.stop([PARTITION])
        assert time.monotonic() - began < STOP_S

    def test_a_sink_that_is_away_is_waited_for(self, tmp_path: Path) -> None:
        driver, _ = self._driver(tmp_path)
        self._put(driver, range(3))
        driver.flush()
        if not self.take_away(tmp_path):
            driver.stop()
            pytest.skip("this other side cannot be taken away")

        def put_and_flush() -> None:  # without the driver's retries
            driver.task.put([self.record(item) for item in range(3, 6)])
            driver.task.flush()

        assert _is_waited_for(put_and_flush)
        self.bring_back(tmp_path)
        if self.exactly_once:  # as the runtime does: a new task resumes at its stored position
            _abandon(driver)
            driver, position = self._driver(tmp_path)
            self._put(driver, range(position, 6))
        else:
            self._put(driver, range(3, 6))
        driver.flush()
        driver.stop([PARTITION])
        if self.exactly_once:
            self._same(tmp_path, range(6))
        else:
            assert set(self.stored(tmp_path)) == set(range(6))


def _as_key(source_partition: Mapping[str, Any]) -> str:
    return json.dumps(source_partition, sort_keys=True)


def _until_it_works(call: Any) -> Any:
    """Retry on RetriableError, as the runtime does."""
    policy = RetryPolicy(first_s=0.1, longest_s=0.1, deadline_s=PATIENCE_S)
    return retry(call, policy, RetriableError)


def _is_waited_for(*calls: Any) -> bool:
    """Whether one of the calls raises RetriableError, and none any other error."""
    for _ in range(3):
        for call in calls:
            try:
                call()
            except RetriableError:
                return True
    return False


def _abandon(driver: SinkDriver) -> None:
    """Abandon a task as a crash does: no flush, no close; its connections end."""
    driver.context.stopping.set()
    driver.task.stop()
