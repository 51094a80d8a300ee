"""A fanout exchange: everyone gets everything, whatever the key."""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare("news", "fanout", auto_delete=True)
    readers = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    for queue in readers:
        channel.queue_bind(queue, "news")
    channel.confirm_delivery()
    channel.basic_publish("news", "", "it rains")
    for number, queue in enumerate(readers, start=1):
        print(f"reader {number} got {channel.basic_get(queue, auto_ack=True)[2].decode()!r}")
