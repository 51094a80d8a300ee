"""Ten thousand connections, of which a few hundred are busy."""

import asyncio
import time
from pathlib import Path

import pytest

from strom.server.process_limits import OTHER_DESCRIPTORS
from strom.storage.files import ENOUGH_OPEN_FILES
from strom.testing import BrokerProcess
from strom.wire.kafka.messages.k03_metadata import MetadataRequest
from strom.wire.kafka.messages.k18_api_versions import ApiVersionsRequest
from tests.server.kafka_calls import Caller

CONNECTIONS, ACTIVE, REQUESTS = 10_000, 200, 50
NEEDED_FILES = CONNECTIONS + OTHER_DESCRIPTORS + ENOUGH_OPEN_FILES
"""A broker leaves some of its files to the log. The clients, in the test's own process, need fewer."""
PAUSE_S = 0.1
MOST_P99_S = 0.1
MOST_BYTES = 600 * 1024 * 1024


@pytest.fixture
def enough_files():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard == resource.RLIM_INFINITY else max(hard, NEEDED_FILES)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (NEEDED_FILES, most))
    except (ValueError, OSError):
        pytest.skip(f"{NEEDED_FILES} files are needed, and `ulimit -n` cannot be raised to that")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


async def connected(servers: str, count: int) -> list[Caller]:
    callers: list[Caller] = []
    while len(callers) < count:
        callers += await asyncio.gather(*(Caller.connect(servers) for _ in range(100)))
        for caller in callers[-100:]:
            await caller.call(ApiVersionsRequest(), 3)
    return callers


async def latencies(caller: Caller, start_s: float) -> list[float]:
    await asyncio.sleep(start_s)
    taken = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        await caller.call(MetadataRequest(topics=[]), 12)
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    return taken


@pytest.mark.soak
def test_ten_thousand_connections_cost_the_busy_ones_little(enough_files):
    async def test(server: BrokerProcess) -> tuple[list[float], int]:
        callers = await connected(server.bootstrap_servers, CONNECTIONS)
        busy = callers[:: CONNECTIONS // ACTIVE]
        rounds = await asyncio.gather(
            *(latencies(one, PAUSE_S * turn / ACTIVE) for turn, one in enumerate(busy))
        )
        resident = resident_bytes(server.pid)
        for caller in callers:
            caller.leave()
        return sorted(each for taken in rounds for each in taken), resident

    with BrokerProcess() as server:
        taken, resident = asyncio.run(test(server))
    p99 = taken[len(taken) * 99 // 100]
    print(f"{len(taken)} requests, p99 {p99 * 1000:.1f} ms, {resident / 2**20:.0f} MiB")
    assert len(taken) == ACTIVE * REQUESTS
    assert p99 < MOST_P99_S
    assert resident < MOST_BYTES
