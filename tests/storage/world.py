"""A data directory on a cruel disk with one partition in it, shared by the tests of the log."""

import uuid
from dataclasses import replace

from strom.model.errors import ApiError, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.directory import DataDirectory
from strom.storage.log import Appended, Log
from strom.testing.memory_files import MemoryFiles
from strom.wire.kafka.batch import BatchHeader, headers, read_header
from strom.wire.kafka.records import Record, assemble, build_batch, read_records

PATH = "data"
PARTITION = TopicPartition("clicks", 0)
FOLDER = f"{PATH}/{PARTITION}"
TOPIC_ID = uuid.UUID("11111111-2222-3333-4444-555555555555")
START_MS = 1_700_000_000_000
STATE_PARTITION = TopicPartition("__consumer_offsets", 0)
"""Of a topic in which a skipped batch would falsify the broker's state."""
SMALL_SEGMENTS = TopicSettings(segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)


def batch(*values: bytes, key: bytes = b"k", timestamp: int = START_MS, **more) -> bytearray:
    """A batch as a client sends it, a record for every value."""
    records = [Record(at, timestamp, key, value) for at, value in enumerate(values)]
    return build_batch(records, **more)


def undecodable(count: int = 1, body: bytes = b"\xff" * 50, **more) -> bytearray:
    """A batch as a client may send it: the checksum is true, the records are noise."""
    header = read_header(batch(b"", **more))
    return assemble(header._replace(record_count=count, last_offset_delta=count - 1), body, 0)


def read_all(log: Log, *, max_bytes: int = 400, committed_only: bool = False) -> list[Record]:
    """Everything readers can see, fetched as a consumer does."""
    offset, found = log.start_offset, []
    end = log.last_stable_offset if committed_only else log.high_watermark
    while offset < end:
        data = log.reader.read(offset, max_bytes, committed_only=committed_only).data
        batches = list(headers(data))
        if not batches:
            break
        for position, header in batches:
            found += [
                each for each in read_records(data, position, header) if each.offset >= offset
            ]
            offset = header.next_offset
    return found


def read_around(log: Log, *, committed_only: bool = False) -> list[Record]:
    """Everything readers can see, as a consumer reads that skips what is corrupt."""
    offset, found = log.start_offset, []
    end = log.last_stable_offset if committed_only else log.high_watermark
    while offset < end:
        try:
            data = log.reader.read(offset, 400, committed_only=committed_only).data
        except ApiError as error:
            if error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise
            offset += 1
            continue
        batches = list(headers(data))
        if not batches:
            break
        for position, header in batches:
            found += [
                each for each in read_records(data, position, header) if each.offset >= offset
            ]
            offset = header.next_offset
    return found


def batch_headers(log: Log) -> list[BatchHeader]:
    """The headers of everything readers can see."""
    offset, found = log.start_offset, []
    while offset < log.high_watermark and (data := log.reader.read(offset, 10**6).data):
        found += [header for _, header in headers(data)]
        offset = found[-1].next_offset
    return found


class World:
    """One partition; it can be flushed, crashed and opened again."""

    def __init__(
        self,
        settings: TopicSettings = SMALL_SEGMENTS,
        *,
        seed: int = 0,
        partition: TopicPartition = PARTITION,
        files: MemoryFiles | None = None,
        **changes,
    ) -> None:
        self.partition = partition
        self.folder = f"{PATH}/{partition}"
        self.files = files or MemoryFiles(seed)
        self.files.now_ms = START_MS
        self.settings = replace(settings, **changes)
        self.now_ms = START_MS
        self.epoch = 0
        self.directory = self._open_directory()
        self.log = self.directory.create_log(partition, TOPIC_ID, self.settings, self.epoch)

    def _open_directory(self) -> DataDirectory:
        return DataDirectory.open(self.files, PATH, now_ms=self.now_ms, node_id=1)

    def append(self, data: bytearray, *, from_client: bool = True) -> Appended:
        return self.log.append(
            data, now_ms=self.now_ms, leader_epoch=self.epoch, from_client=from_client
        )

    def flush(self) -> None:
        flush = self.log.begin_flush()
        if flush is not None:
            flush.sync()
            self.log.finish_flush(flush)

    def checkpoint(self) -> None:
        self.directory.checkpoint([self.log])

    def fill(self, count: int, size: int = 50, **more) -> None:
        """Append and flush batches of one record each, values that tell their offset."""
        for _ in range(count):
            value = b"%d " % self.log.end_offset
            self.append(batch(value.ljust(size, b"."), **more))
        self.flush()

    def compact(self) -> bool:
        compaction = self.log.plan_compaction(self.now_ms)
        if compaction is not None:
            compaction.run()
            self.log.apply_compaction(compaction)
        return compaction is not None

    def crash(self) -> None:
        """Pull the plug and start again."""
        self.files.crash()
        self.epoch += 1
        self.reopen()

    def kill(self) -> None:
        """Let the process die: what the operating system was given is there, but not synced."""
        self.files.kill()
        self.epoch += 1
        self.reopen()

    def stop(self) -> None:
        """Stop cleanly."""
        self.directory.close([self.log])

    def restart(self) -> None:
        """Stop cleanly, lose the power, start."""
        self.stop()
        self.files.crash()
        self.reopen()

    def reopen(self) -> None:
        self.directory = self._open_directory()
        self.log = self.directory.open_log(self.partition, TOPIC_ID, self.settings, self.epoch)
