"""A topic exchange: keys are words, `*` stands for one word and `#` for any number of them."""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare("orders", "topic", auto_delete=True)
    wishes = {"german-books": "de.*.books", "all-german": "de.#", "urgent": "#.urgent"}
    for name, pattern in wishes.items():
        channel.queue_declare(name, exclusive=True)
        channel.queue_bind(name, "orders", pattern)
    channel.confirm_delivery()
    for key in ("de.berlin.books", "de.bonn.music.urgent", "fr.paris.books", "fr.urgent"):
        channel.basic_publish("orders", key, b"")
    for name, pattern in wishes.items():
        got = []
        while (message := channel.basic_get(name, auto_ack=True))[0] is not None:
            got.append(message[0].routing_key)
        print(f"{name} ({pattern}) got {got}")
