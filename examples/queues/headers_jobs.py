"""A headers exchange: not the key decides but what the message says about itself."""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare("jobs", "headers", auto_delete=True)
    wishes = {
        "printers": {"x-match": "all", "format": "pdf", "colour": True},
        "archive": {"x-match": "any", "format": "pdf", "keep": True},
    }
    for name, arguments in wishes.items():
        channel.queue_declare(name, exclusive=True)
        channel.queue_bind(name, "jobs", arguments=arguments)
    channel.confirm_delivery()
    for text, headers in [
        ("poster", {"format": "pdf", "colour": True}),
        ("letter", {"format": "pdf"}),
        ("photo", {"format": "png", "keep": True}),
        ("note", {"format": "txt"}),
    ]:
        channel.basic_publish("jobs", "", text, pika.BasicProperties(headers=headers))
    for name in wishes:
        got = []
        while (message := channel.basic_get(name, auto_ack=True))[0] is not None:
            got.append(message[2].decode())
        print(f"{name} got {got}")
