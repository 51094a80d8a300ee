"""What readers of a log find, by offset and by timestamp."""

from strom.model.steps import run_at_once
from strom.storage.log_reading import HEADERS_PER_SEGMENT, HEADERS_PER_STEP
from strom.storage.validation import RECORDS_PER_STEP
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import Record, build_batch
from tests.storage.world import START_MS, World, batch


def test_every_offset_is_found_through_sparse_indexes_over_many_segments():
    world = World()
    world.fill(200)
    assert world.log.segment_count > 20
    for reopen in (None, world.restart, world.kill):
        if reopen:
            reopen()
        for offset in range(200):
            (_, first), *_ = headers(world.log.reader.read(offset, 500).data)
            assert first.base_offset == offset


def test_bytes_after_counts_what_reads_would_give():
    world = World()
    world.fill(60)
    for offset in range(61):
        total, at = 0, offset
        while data := world.log.reader.read(at, 10**6).data if at < 60 else b"":
            total += len(data)
            at = [header for _, header in headers(data)][-1].next_offset
        assert world.log.reader.bytes_after(offset, limit=10**6) == total
        assert world.log.reader.bytes_after(offset, limit=100) == min(total, 100)


def test_times_are_found_exactly():
    world = World()
    stamps = [100, 300, 200, 500, 400, 600, 600, 50]
    for stamp in stamps:
        world.append(batch(b"x" * 60, timestamp=START_MS + stamp))
    world.append(
        build_batch([Record(at, START_MS + 700 + 10 * at, None, b"v") for at in range(5)], codec=3)
    )
    world.flush()
    expected = [(100, 0), (101, 1), (300, 1), (301, 3), (500, 3), (501, 5), (601, 8), (725, 11)]
    for reopen in (None, world.restart, world.kill):
        if reopen:
            reopen()
        for stamp, offset in expected:
            assert run_at_once(world.log.reader.find_timestamp(START_MS + stamp)).offset == offset
        assert run_at_once(world.log.reader.find_timestamp(START_MS + 741)) is None
        found = run_at_once(world.log.reader.find_max_timestamp())
        assert (found.offset, found.timestamp) == (12, START_MS + 740)


def test_times_before_the_start_and_beyond_the_watermark_are_not_found():
    world = World()
    for stamp in (100, 200, 300):
        world.append(batch(b"x", timestamp=START_MS + stamp))
    world.flush()
    world.append(batch(b"x", timestamp=START_MS + 400))
    assert run_at_once(world.log.reader.find_timestamp(START_MS + 400)) is None
    world.log.delete_before(1)
    assert run_at_once(world.log.reader.find_timestamp(START_MS)).offset == 1


def test_an_empty_log_has_no_times():
    assert run_at_once(World().log.reader.find_timestamp(0)) is None
    assert run_at_once(World().log.reader.find_max_timestamp()) is None


def timed_batch(count, first_ms):
    """Records one millisecond apart."""
    return build_batch([Record(at, first_ms + at, None, b"") for at in range(count)])


def count_steps(search):
    """How often a search pauses."""
    count = 0
    try:
        aside = next(search)
        while True:
            count += 1
            aside = search.send(None if aside is None else aside())
    except StopIteration:
        return count


def test_a_search_by_time_stops_at_the_first_match():
    world = World(segment_bytes=1 << 20)
    world.append(timed_batch(5000, START_MS))
    world.flush()
    assert count_steps(world.log.reader.find_timestamp(START_MS + 5)) == 0
    late = count_steps(world.log.reader.find_timestamp(START_MS + 4999))
    assert late == 5000 // RECORDS_PER_STEP - 1


def test_a_search_by_time_pauses_between_many_batches():
    world = World(segment_bytes=1 << 20)
    for _ in range(3 * HEADERS_PER_STEP):
        world.append(batch(b"x", timestamp=START_MS))
    world.append(batch(b"x", timestamp=START_MS + 9))
    world.flush()
    assert run_at_once(world.log.reader.find_timestamp(START_MS + 5)).offset == 3 * HEADERS_PER_STEP
    assert count_steps(world.log.reader.find_timestamp(START_MS + 5)) >= 2


def test_a_search_by_time_goes_on_after_its_segments_were_deleted():
    world = World(segment_bytes=10_000)
    world.append(timed_batch(1000, START_MS))
    world.append(timed_batch(1000, START_MS + 1000))
    world.flush()
    search = world.log.reader.find_timestamp(START_MS + 999)
    assert next(search) is None  # amid the first batch
    world.log.delete_before(1000)
    assert world.log.delete_old_segments(world.now_ms) == 1
    assert run_at_once(search).offset == 1000


SEGMENTS_PER_STEP = HEADERS_PER_STEP // HEADERS_PER_SEGMENT


def world_with_segments(count):
    """One record for each segment, ascending by time."""
    world = World(segment_bytes=150)
    for at in range(count):
        world.append(batch(b"x" * 60, timestamp=START_MS + at))
    world.flush()
    assert world.log.segment_count == count
    return world


def test_a_search_by_time_pauses_between_many_segments():
    world = world_with_segments(5 * SEGMENTS_PER_STEP)
    last = 5 * SEGMENTS_PER_STEP - 1
    for reopen in (None, world.restart, world.kill):
        if reopen:
            reopen()
        assert count_steps(world.log.reader.find_timestamp(START_MS + last)) >= 4
        assert count_steps(world.log.reader.find_timestamp(START_MS + last + 1)) >= 4
        assert count_steps(world.log.reader.find_max_timestamp()) >= 2 * 4
        for at in range(0, last + 1, 7):
            assert run_at_once(world.log.reader.find_timestamp(START_MS + at)).offset == at
        assert run_at_once(world.log.reader.find_max_timestamp()).offset == last


def test_a_search_between_segments_goes_on_after_the_next_ones_were_deleted():
    count = 5 * SEGMENTS_PER_STEP
    world = world_with_segments(count)
    searches = [
        world.log.reader.find_timestamp(START_MS + 2 * SEGMENTS_PER_STEP),
        world.log.reader.find_max_timestamp(),
    ]
    for search in searches:
        assert next(search) is None
    world.log.delete_before(count - 3)
    assert world.log.delete_old_segments(world.now_ms) == count - 3
    first, largest = (run_at_once(search).offset for search in searches)
    assert (first, largest) == (count - 3, count - 1)


def test_the_largest_time_is_searched_again_after_its_record_was_deleted():
    world = World(segment_bytes=150)
    for at in range(3 * SEGMENTS_PER_STEP):
        world.append(batch(b"x" * 60, timestamp=START_MS + (999 if at == 0 else at)))
    world.flush()
    search = world.log.reader.find_max_timestamp()
    assert next(search) is None
    world.log.delete_before(1)
    assert world.log.delete_old_segments(world.now_ms) == 1
    assert run_at_once(search).offset == 3 * SEGMENTS_PER_STEP - 1
