"""A worker is killed again and again while 100,000 records go into tables: each is there once."""

import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from strom.testing import LocalBroker
from tests.connect.runtime.workers import WorkerProcess, wait_until

RECORDS = 100_000
PARTITIONS = 3
pytestmark = pytest.mark.slow


def fill(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("orders", PARTITIONS, 1)])["orders"].result()
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 200_000})
    for number in range(RECORDS):
        producer.produce("orders", json.dumps({"n": number}), partition=number % PARTITIONS)
    producer.flush()


def in_delta(path: Path) -> list[int]:
    try:
        return sorted(DeltaTable(path / "orders").to_pyarrow_table()["n"].to_pylist())
    except TableNotFoundError:
        return []


def in_parquet(path: Path) -> list[int]:
    if not any((path / "orders").glob("*.parquet")):
        return []
    return sorted(ds.dataset(path / "orders").to_table()["n"].to_pylist())


def test_every_record_is_in_both_tables_once_whenever_the_worker_dies(tmp_path):
    delta, parquet = tmp_path / "delta", tmp_path / "parquet"
    with LocalBroker(settings={"group.min.session.timeout.ms": "1000"}) as broker:
        fill(broker.bootstrap_servers)
        worker = WorkerProcess(
            broker.bootstrap_servers,
            **{
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter.schemas.enable": "false",
            },
        ).start()
        try:
            for name, path in (("delta", delta), ("parquet", parquet)):
                worker.rest.put(
                    name,
                    connector__class="LakeSink",
                    topics="orders",
                    path=path,
                    format=name,
                    flush__size=4000,
                    tasks__max=2,
                )
            for share in (0.05, 0.3, 0.6):
                wait_until(lambda share=share: len(in_delta(delta)) >= share * RECORDS)
                worker.kill()
                worker.start()
            everything = list(range(RECORDS))
            wait_until(lambda: len(in_delta(delta)) >= RECORDS, 100)
            wait_until(lambda: len(in_parquet(parquet)) >= RECORDS, 100)
            assert worker.terminate() == 0
        finally:
            worker.stop()
    assert in_delta(delta) == everything
    assert in_parquet(parquet) == everything
