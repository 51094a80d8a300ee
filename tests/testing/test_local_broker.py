import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from strom.model.errors import UserError
from strom.testing import LocalBroker


def send(servers: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("t", value)
    assert producer.flush(30) == 0


def receive(servers: str, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("t", 0, 0)])
    records = [record for _ in range(count) if (record := consumer.poll(30)) is not None]
    consumer.close()
    return [record.value() for record in records]


def test_it_serves_unchanged_clients():
    with LocalBroker() as broker:
        send(broker.bootstrap_servers, b"one")
        assert receive(broker.bootstrap_servers, 1) == [b"one"]


def test_two_brokers_stand_side_by_side_and_know_nothing_of_each_other():
    with LocalBroker() as one, LocalBroker() as two:
        assert one.bootstrap_servers != two.bootstrap_servers
        send(one.bootstrap_servers, b"one")
        send(two.bootstrap_servers, b"two")
        assert receive(two.bootstrap_servers, 1) == [b"two"]


def test_named_data_stays_and_is_served_again(tmp_path):
    data = str(tmp_path / "data")
    with LocalBroker(data=data) as broker:
        send(broker.bootstrap_servers, b"kept")
    with LocalBroker(data=data) as broker:
        assert receive(broker.bootstrap_servers, 1) == [b"kept"]


def test_temporary_data_goes_with_the_broker():
    from pathlib import Path

    with LocalBroker() as broker:
        data = Path(broker.data)
        assert data.is_dir()
    assert not data.exists()


def test_settings_go_by_their_kafka_names():
    with LocalBroker(settings={"auto.create.topics.enable": "false"}) as broker:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 2000}
        )
        failed = []
        producer.produce("t", b"x", on_delivery=lambda error, _: failed.append(error))
        producer.flush(30)
        assert failed[0] is not None


def test_a_folder_in_use_is_refused_with_the_reason(tmp_path):
    data = str(tmp_path / "data")
    with LocalBroker(data=data), pytest.raises(UserError, match="already in use"):
        LocalBroker(data=data).start()


def test_asking_for_the_address_before_the_start_says_what_to_do():
    with pytest.raises(RuntimeError, match="with"):
        _ = LocalBroker().bootstrap_servers
