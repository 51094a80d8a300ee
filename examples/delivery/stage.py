"""What the three examples have in common: orders to work on, a worker that is killed, and the count.

An example is a function `work(job)` that turns orders into invoices. `play` starts it in a process
of its own, kills that process at the worst moment, starts it again, and counts the invoices.
"""

import argparse
import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from strom.testing import LocalBroker

ORDERS = 60
BATCH = 10
CRASH_IN_BATCH = 3
WAIT_SECONDS = 30


@dataclass(frozen=True)
class Job:
    """What a worker is told: where the orders are, and where the invoices go."""

    bootstrap_servers: str
    orders: str
    invoices: str
    group: str
    crashes: bool

    @property
    def consumer_settings(self) -> dict[str, str | int | bool]:
        """For a worker that decides by itself when it has done its work."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.group,
            # The next worker takes the place of a dead one at once, not after the session timeout.
            "group.instance.id": "worker-1",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }

    def may_crash_here(self, batch: int) -> None:
        """The moment that tells the three apart: the first worker never gets past it."""
        if self.crashes and batch == CRASH_IN_BATCH:
            print("kill me now", flush=True)
            sys.stdin.read()


@dataclass(frozen=True)
class Outcome:
    """How many orders were given, and which were invoiced not at all or more than once."""

    orders: int
    invoices: int
    lost: list[int]
    doubled: list[int]
    aborted: int
    """Invoices that are in the log and that no reader of committed records ever sees."""


Work = Callable[[Job], None]


def batches(consumer: Consumer) -> Iterator[tuple[int, list[Message]]]:
    """Orders, some at a time, until there are no more. A real worker would wait for new ones."""
    number, batch = 1, []
    while (message := consumer.poll(WAIT_SECONDS)) is not None:
        error = message.error()
        if error is None:
            batch.append(message)
        elif error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if batch and (error or len(batch) == BATCH):
            yield number, batch
            number, batch = number + 1, []
        if error:
            return
    raise RuntimeError(f"no orders came within {WAIT_SECONDS} seconds")


def invoice(order: Message) -> str:
    """The processing: an invoice for an order."""
    return f"invoice for {order.value().decode()}"


def play(title: str, work: Work) -> int:
    """Run the example as the command line asks for it."""
    parser = argparse.ArgumentParser(description=f"{title}, with a worker that is killed")
    parser.add_argument("--bootstrap-server", help="a broker; without it, one is started")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(Job(**json.loads(options.worker)))
        return 0
    with ExitStack() as stack:
        servers = options.bootstrap_server
        if servers is None:
            servers = stack.enter_context(LocalBroker()).bootstrap_servers
        outcome = _crash_and_count(servers)
    print(json.dumps(asdict(outcome))) if options.json else _show(title, outcome)
    return 0


def _crash_and_count(servers: str) -> Outcome:
    tag = uuid.uuid4().hex[:8]
    job = Job(servers, f"orders-{tag}", f"invoices-{tag}", f"invoicing-{tag}", crashes=True)
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(name, num_partitions=1) for name in (job.orders, job.invoices)]
    for created in admin.create_topics(topics).values():
        created.result()
    try:
        _give_orders(job)
        with _start_worker(job) as first:
            _wait_until_it_may_be_killed(first)
            first.kill()  # SIGKILL: it has no chance to say or write anything
        with _start_worker(Job(**{**asdict(job), "crashes": False})) as second:
            if second.wait(timeout=WAIT_SECONDS * 2) != 0:
                raise RuntimeError("the second worker failed")
        return _count(job)
    finally:
        for deleted in admin.delete_topics([job.orders, job.invoices]).values():
            deleted.result()


def _give_orders(job: Job) -> None:
    producer = Producer({"bootstrap.servers": job.bootstrap_servers, "enable.idempotence": True})
    for number in range(ORDERS):
        producer.produce(job.orders, key=str(number), value=f"order {number}")
    if producer.flush(WAIT_SECONDS):
        raise RuntimeError("the orders could not be sent")


def _start_worker(job: Job) -> subprocess.Popen[str]:
    command = [sys.executable, sys.argv[0], "--worker", json.dumps(asdict(job))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _wait_until_it_may_be_killed(worker: subprocess.Popen[str]) -> None:
    if worker.stdout is None or not worker.stdout.readline():
        raise RuntimeError("the first worker ended too soon")


def _count(job: Job) -> Outcome:
    invoiced = _read_invoices(job, "read_committed")
    seen = Counter(invoiced)
    return Outcome(
        orders=ORDERS,
        invoices=len(invoiced),
        lost=[number for number in range(ORDERS) if not seen[number]],
        doubled=[number for number in range(ORDERS) if seen[number] > 1],
        aborted=len(_read_invoices(job, "read_uncommitted")) - len(invoiced),
    )


def _read_invoices(job: Job, isolation_level: str) -> list[int]:
    settings = {
        **job.consumer_settings,
        "group.id": f"audit-{isolation_level}-{job.group}",
        "isolation.level": isolation_level,
    }
    consumer = Consumer(settings)
    consumer.subscribe([job.invoices])
    found = [int(one.key()) for _, batch in batches(consumer) for one in batch]
    consumer.close()
    return found


def _show(title: str, outcome: Outcome) -> None:
    table = Table(title=f"{title}: the worker was killed once", title_justify="left")
    for heading in ("orders", "invoices", "lost", "doubled", "aborted, never seen"):
        table.add_column(heading, justify="right")
    lost, doubled = _ranges(outcome.lost), _ranges(outcome.doubled)
    table.add_row(
        str(outcome.orders),
        str(outcome.invoices),
        f"[red]{lost}[/]" if lost else "[green]none[/]",
        f"[red]{doubled}[/]" if doubled else "[green]none[/]",
        str(outcome.aborted or ""),
    )
    Console().print(table)


def _ranges(numbers: list[int]) -> str:
    """10 numbers from 20 to 29 as `10: #20–29`; they are always neighbours here."""
    return f"{len(numbers)}: #{numbers[0]}–{numbers[-1]}" if numbers else ""
