"""A partition's folder: what an interrupted run left is completed or removed."""

import pytest

from strom.storage.files import write_file
from strom.storage.folder import complete_interrupted_work, swap_name
from strom.testing.memory_files import MemoryFiles


def name(offset: int, suffix: str = ".log") -> str:
    return f"{offset:020d}{suffix}"


def completed(*names: str) -> tuple[list[int], list[str]]:
    """The segments found, and the files left, of a folder where each file holds its own name."""
    files = MemoryFiles()
    files.make_directory("d")
    for each in names:
        write_file(files, f"d/{each}", each.encode())
    bases = complete_interrupted_work(files, "d").bases
    return bases, [f"{each}={files.peek(f'd/{each}').decode()}" for each in files.list("d")]


def test_a_folder_without_leftovers_is_left_as_it_is():
    bases, left = completed(name(0), name(0, ".index"), name(7), name(7, ".snapshot"), "other.txt")
    assert bases == [0, 7]
    assert len(left) == 5


@pytest.mark.parametrize("suffix", [".cleaned", ".tmp", ".replaced"])
def test_half_written_files_go(suffix):
    assert completed(name(0), name(0) + suffix) == ([0], [f"{name(0)}={name(0)}"])


def test_what_retention_took_takes_all_before_it_along():
    bases, left = completed(name(0), name(5, ".log.deleted"), name(9), name(9, ".index"))
    assert bases == [9]
    assert [each[:20] for each in left] == [*[f"{9:020d}"] * 2, "log-start-offset=9\nc"]


def test_a_swap_replaces_all_segments_of_its_range_and_their_indexes():
    swap = swap_name(5, 20)
    bases, left = completed(
        name(0), name(5), name(5, ".index"), name(9), name(9, ".timeindex"), name(20), swap
    )
    assert bases == [0, 5, 20]
    assert left == [
        f"{name(0)}={name(0)}",
        f"{name(5)}={swap}",
        f"{name(20)}={name(20)}",
    ]


def test_a_swap_is_completed_even_if_what_it_replaces_is_already_gone():
    swap = swap_name(5, 20)
    bases, left = completed(name(5, ".log.replaced"), name(9, ".log.replaced"), swap, name(20))
    assert bases == [5, 20]
    assert left == [f"{name(5)}={swap}", f"{name(20)}={name(20)}"]


def test_indexes_without_a_log_go():
    assert completed(name(0), name(3, ".index"), name(3, ".txnindex"))[1] == [
        f"{name(0)}={name(0)}"
    ]
