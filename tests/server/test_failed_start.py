"""A node that cannot start gives back what it has taken: ports, the lock of its data, tasks."""

import asyncio
import errno
import socket
from pathlib import Path

import pytest

import strom.app
from strom.app import Node
from strom.broker.groups import Groups
from strom.broker.queues.hub import QueueBroker
from strom.model.broker_settings import BrokerSettings


def free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def no_descriptors(*_: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(Groups, "load", id="groups"),
        pytest.param(QueueBroker, "load", id="queues"),
        pytest.param(strom.app, "make_node_metrics", id="metrics"),
        pytest.param(strom.app, "make_metrics_server", id="metrics port"),
    ],
)
def test_the_next_start_finds_ports_and_data_free(
    owner: object, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, amqp, management, metrics = free_ports(4)
    settings = BrokerSettings(
        data=str(tmp_path),
        port=kafka,
        amqp_port=amqp,
        amqp_management_port=management,
        metrics_port=metrics,
    )

    async def run() -> None:
        before = asyncio.all_tasks()
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, no_descriptors)
            with pytest.raises(OSError, match="Too many open files"):
                await Node(settings).start()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        node = Node(settings)
        await node.start()
        await node.stop()

    asyncio.run(run())
