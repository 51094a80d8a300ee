"""A worker that cannot start gives back what it has taken: port, threads, membership."""

import errno
import logging
import socket
import threading

import pytest

from strom.connect.runtime.membership import Membership
from strom.connect.runtime.rest.server import RunningWorker
from strom.http.server import HttpThread
from strom.testing import LocalBroker


def test_a_worker_that_cannot_serve_leaves_its_group(monkeypatch):
    def no_descriptors(_):
        raise OSError(errno.EMFILE, "Too many open files")

    with LocalBroker() as broker:
        before = set(threading.enumerate())
        monkeypatch.setattr(HttpThread, "start", no_descriptors)
        with pytest.raises(OSError, match="Too many open files"):
            RunningWorker({"bootstrap.servers": broker.bootstrap_servers, "rest.port": "0"}).start()
        names = {one.name for one in set(threading.enumerate()) - before}
        assert not {name for name in names if name.startswith(("connect", "follow"))}


def test_a_worker_that_cannot_join_takes_back_what_it_has_started(monkeypatch):
    def fail(_):
        raise RuntimeError("no more threads")

    with LocalBroker() as broker:
        before = set(threading.enumerate())
        handlers = list(logging.getLogger("strom.connect").handlers)
        monkeypatch.setattr(Membership, "start", fail)
        running = RunningWorker({"bootstrap.servers": broker.bootstrap_servers, "rest.port": "0"})
        with pytest.raises(RuntimeError, match="no more threads"):
            running.start()
        names = {one.name for one in set(threading.enumerate()) - before}
        assert not {name for name in names if name.startswith(("connect", "follow"))}
        assert logging.getLogger("strom.connect").handlers == handlers
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", running.port), timeout=5)
