"""Many syncs at once."""

import threading

from strom.storage.parallel import SYNC_THREADS, parts_of, sync_all


def test_all_syncs_run_though_one_fails_and_errors_are_in_order():
    done = []

    def sync(number):
        def run():
            done.append(number)
            if number % 3 == 1:
                raise OSError(number, "failed")

        return run

    errors = sync_all([sync(number) for number in range(6)])
    assert sorted(done) == [0, 1, 2, 3, 4, 5]
    assert [getattr(error, "errno", None) for error in errors] == [None, 1, None, None, 4, None]


def test_syncs_wait_for_the_disk_together():
    together = threading.Barrier(SYNC_THREADS, timeout=10)

    def sync():
        together.wait()

    assert sync_all([sync] * SYNC_THREADS) == [None] * SYNC_THREADS


def test_a_single_sync_needs_no_thread():
    threads = []
    sync_all([lambda: threads.append(threading.current_thread())])
    assert threads == [threading.current_thread()]


def test_parts_have_at_most_the_given_size():
    assert list(parts_of([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert list(parts_of([], 2)) == []
