import socket

import pytest

from strom.model.errors import CorruptData
from strom.storage.files import DiskFiles
from strom.storage.open_files import OpenFiles
from strom.storage.region import Region


class Owner:
    def __init__(self, path) -> None:
        self.log_path = str(path)


@pytest.fixture
def owner(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(range(256)) * 1000)
    return Owner(path)


@pytest.fixture
def open_files():
    pool = OpenFiles(DiskFiles(), 10)
    yield pool
    pool.close()


def test_bytes_are_taken_from_the_front(owner, open_files):
    region = Region(open_files, owner, 10, 300)
    assert region.take(6) == bytes(range(10, 16))
    assert len(region) == 294
    assert len(region.take(1000)) == 294
    assert len(region) == 0


def test_a_file_that_has_become_shorter_is_noticed(owner, open_files, tmp_path):
    region = Region(open_files, owner, 255_990, 100)
    with pytest.raises(CorruptData):
        region.take(100)


def test_the_system_sends_what_the_socket_takes(owner, open_files):
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        region = Region(open_files, owner, 5, 250_000)
        received = b""
        right.settimeout(10)
        while len(region):
            if not region.send(left.fileno()):
                left.setblocking(True)
                left.sendall(region.take(1000))
                left.setblocking(False)
            while len(received) < 250_000 - len(region):
                received += right.recv(65536)
        assert received == (bytes(range(256)) * 1000)[5:250_005]


def test_the_file_stays_open_though_its_segment_is_deleted(owner, open_files, tmp_path):
    region = Region(open_files, owner, 0, 256)
    open_files.forget(owner)
    (tmp_path / "00000000000000000000.log").unlink()
    assert region.take(256) == bytes(range(256))


def test_a_dropped_region_lets_go_of_its_file(owner, open_files):
    region = Region(open_files, owner, 0, 256)
    entry = open_files.pin(owner, owner.log_path)
    assert entry.pins == 2
    del region
    assert entry.pins == 1
    open_files.unpin(entry)
