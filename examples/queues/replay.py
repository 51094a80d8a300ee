"""Both worlds: what was consumed from a queue can still be read again from a topic. strom only."""

import sys

import pika
from confluent_kafka import Consumer, TopicPartition

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"
SERVERS = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:9092"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare(
        "payments", "direct", auto_delete=True, arguments={"x-strom-to-topic": "all-payments"}
    )
    channel.queue_declare("to-book", exclusive=True)
    channel.queue_bind("to-book", "payments", "eva")
    channel.confirm_delivery()
    for amount in (5, 7):
        channel.basic_publish("payments", "eva", str(amount))
    while (message := channel.basic_get("to-book", auto_ack=True))[0] is not None:
        print(f"booked {message[2].decode()}")

    consumer = Consumer({"bootstrap.servers": SERVERS, "group.id": "audit"})
    consumer.assign([TopicPartition("all-payments", 0, 0)])
    for _ in range(2):
        record = consumer.poll(20)
        print(f"replayed {record.key().decode()} {record.value().decode()}")
    consumer.close()
