"""A queue of work: two workers share it, and a message is gone when its worker says that it is done."""

import sys
from collections.abc import Callable
from typing import Any

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    office = connection.channel()
    office.queue_declare("work", durable=True)
    office.confirm_delivery()  # basic_publish returns when the message is safely on disk
    for number in range(1, 7):
        office.basic_publish("", "work", f"job {number}", pika.BasicProperties(delivery_mode=2))
    print("6 jobs wait")

    def worker(name: str) -> Callable[..., None]:
        def work(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            print(f"{name} does {body.decode()}")
            channel.basic_ack(method.delivery_tag)

        return work

    for name in ("Anna", "Bert"):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)  # the next job only after the last one is done
        channel.basic_consume("work", worker(name))
    while office.queue_declare("work", passive=True).method.message_count:
        connection.process_data_events(time_limit=0.2)
    connection.process_data_events(time_limit=0.2)
    office.queue_delete("work")
