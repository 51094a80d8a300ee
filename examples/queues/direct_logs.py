"""A direct exchange: a log line goes to whoever asked for its level."""

import sys

import pika

URL = sys.argv[1] if len(sys.argv) > 1 else "amqp://guest:guest@127.0.0.1:5672/%2F"

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare("logs", "direct", auto_delete=True)
    wishes = {"pager": ["error"], "archive": ["info", "warning", "error"]}
    for name, levels in wishes.items():
        channel.queue_declare(name, exclusive=True)
        for level in levels:
            channel.queue_bind(name, "logs", level)
    channel.confirm_delivery()
    for level, text in [("info", "started"), ("error", "disk full"), ("debug", "x = 3")]:
        channel.basic_publish("logs", level, text)
    for name in wishes:
        got = []
        while (message := channel.basic_get(name, auto_ack=True))[0] is not None:
            got.append(f"{message[0].routing_key}: {message[2].decode()}")
        print(f"{name} got {got}")
