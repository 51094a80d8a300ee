"""What a log refuses after an error of reading."""

import errno

import pytest

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.storage.disk import Disk
from strom.storage.log_guard import LogGuard
from strom.storage.log_rewriting import Rewriting
from strom.storage.log_state import LogState
from strom.testing.memory_files import MemoryFiles
from tests.storage.world import FOLDER, PARTITION, PATH


@pytest.fixture
def guard():
    disk = Disk(MemoryFiles(0), PATH)
    state = LogState.nothing(disk.files, FOLDER)
    return LogGuard(disk, PARTITION, Rewriting(disk, FOLDER, state), state, None)


def read(guard: LogGuard, error: Exception) -> None:
    """A read that fails."""
    with guard:
        raise error


@pytest.mark.parametrize("damage", [CorruptData("noise"), OSError(errno.EIO, "noise")])
def test_damage_quarantines_the_log(guard, damage):
    with pytest.raises(ApiError, match=r"is damaged: .*noise") as raised:
        read(guard, damage)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert raised.value.__cause__ is damage
    with pytest.raises(ApiError, match=r"is damaged: .*noise"):
        guard.check()


def test_a_shortage_is_reported_and_the_log_stays_usable(guard):
    with pytest.raises(ApiError, match="Cannot read: no file left"):
        read(guard, OSError(errno.EMFILE, "no file left"))
    guard.check()
    assert guard.quarantined is None


def test_other_errors_pass(guard):
    with pytest.raises(ApiError) as raised:
        read(guard, ApiError(ErrorCode.OFFSET_OUT_OF_RANGE))
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert guard.quarantined is None
