"""What is measured: rates of publishing and consuming, latency, and memory with much waiting."""

import multiprocessing
import os
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pika
import psutil

from benchmarks.queues.raw_client import RawConnection, message, publish, receive

_PROCESSES = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Case:
    """Messages through queues."""

    title: str
    size: int
    count: int
    queues: int = 1
    fan_out: bool = False
    """Whether one publisher feeds all queues through an exchange; else each has its own."""
    persistent: bool = False
    confirms: bool = False
    acknowledge: bool = True


CASES = (
    Case("12 bytes, transient, automatic acknowledgement", 12, 200_000, acknowledge=False),
    Case("12 bytes, transient", 12, 100_000),
    Case("1 KB, transient, automatic acknowledgement", 1024, 60_000, acknowledge=False),
    Case("1 KB, transient", 1024, 60_000),
    Case("12 bytes, persistent with confirms", 12, 60_000, persistent=True, confirms=True),
    Case("1 KB, persistent with confirms", 1024, 40_000, persistent=True, confirms=True),
    Case("8 queues, 12 bytes, transient", 12, 20_000, queues=8),
    Case("fan-out to 10 queues, 12 bytes, transient", 12, 10_000, queues=10, fan_out=True),
)


def rate(url: str, case: Case) -> float:
    """Deliveries a second, from the first message published to the last consumed."""
    name = f"bench-{secrets.token_hex(4)}"
    queues = [f"{name}-{number}" for number in range(case.queues)]
    exchange = name if case.fan_out else ""
    with pika.BlockingConnection(pika.URLParameters(f"{url}?heartbeat=0")) as connection:
        channel = connection.channel()
        if case.fan_out:
            channel.exchange_declare(exchange, "fanout")
        for queue in queues:
            channel.queue_declare(queue, durable=case.persistent)
            if case.fan_out:
                channel.queue_bind(queue, exchange)
        seconds = _run(url, case, exchange, queues)
        for queue in queues:
            channel.queue_delete(queue)
        if case.fan_out:
            channel.exchange_delete(exchange)
    return case.count * len(queues) / seconds


def _run(url: str, case: Case, exchange: str, queues: list[str]) -> float:
    ready = _PROCESSES.Semaphore(0)
    start, done = _PROCESSES.Event(), _PROCESSES.Event()
    publishers = queues[:1] if case.fan_out else queues
    workers = [_worker(_consume, url, case, queue, ready, start, done) for queue in queues]
    workers += [
        _worker(_publish, url, case, exchange, queue, ready, start, done) for queue in publishers
    ]
    for _ in workers:
        ready.acquire()
    began = time.perf_counter()
    start.set()
    for worker in workers[: len(queues)]:
        worker.join()
    seconds = time.perf_counter() - began
    done.set()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise RuntimeError("a client of the benchmark failed")
    return seconds


def _worker(target: Callable[..., None], *arguments: Any) -> Any:
    process = _PROCESSES.Process(target=target, args=arguments)
    process.start()
    return process


def _consume(url: str, case: Case, queue: str, ready: Any, start: Any, done: Any) -> None:
    connection = RawConnection(url)
    connection.consume(queue, acknowledge=case.acknowledge)
    ready.release()
    start.wait()
    receive(connection, case.count, acknowledge=case.acknowledge)


def _publish(
    url: str, case: Case, exchange: str, key: str, ready: Any, start: Any, done: Any
) -> None:
    connection = RawConnection(url)
    if case.confirms:
        connection.ask_for_confirms()
    one = message(exchange, key, b"x" * case.size, persistent=case.persistent)
    ready.release()
    start.wait()
    publish(connection, one, case.count, confirms=case.confirms)
    done.wait()


def latencies_ms(url: str, *, persistent: bool, count: int = 2000) -> tuple[float, float]:
    """p50 and p99 from publishing to delivery, one message in flight."""
    queue = f"latency-{secrets.token_hex(4)}"
    with pika.BlockingConnection(pika.URLParameters(url)) as control:
        channel = control.channel()
        channel.queue_declare(queue, durable=persistent)
        sender, receiver = RawConnection(url), RawConnection(url)
        receiver.consume(queue, acknowledge=False)
        one = message("", queue, b"x" * 100, persistent=persistent)
        taken = []
        for _ in range(count):
            began = time.perf_counter()
            sender.socket.sendall(one)
            for _ in range(3):  # method, header, body
                receiver.read()
            taken.append((time.perf_counter() - began) * 1000)
        channel.queue_delete(queue)
    quantiles = statistics.quantiles(taken, n=100)
    return quantiles[49], quantiles[98]


def memory_waiting_mb(url: str, pid: int, count: int = 1_000_000) -> float:
    """Resident memory of the broker with so many messages of 100 bytes waiting."""
    queue = f"waiting-{secrets.token_hex(4)}"
    with pika.BlockingConnection(pika.URLParameters(f"{url}?heartbeat=0")) as control:
        channel = control.channel()
        channel.queue_declare(queue, durable=True)
        sender = RawConnection(url)
        sender.ask_for_confirms()
        one = message("", queue, b"x" * 100, persistent=True)
        publish(sender, one, count, confirms=True)
        waiting = channel.queue_declare(queue, durable=True, passive=True).method.message_count
        if waiting != count:
            raise RuntimeError(f"{waiting} messages wait, and {count} were confirmed")
        resident = _resident(pid)
        channel.queue_delete(queue)
    return resident / 1e6


def _resident(pid: int) -> float:
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return float(max(one.memory_info().rss for one in family if one.pid != os.getpid()))
