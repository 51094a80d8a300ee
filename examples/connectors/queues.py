"""Messages of an AMQP queue become records, and records become messages of another queue."""

import json
import sys
import time
import urllib.request

import pika

REST = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8083"
QUEUES = sys.argv[2] if len(sys.argv) > 2 else "amqp://127.0.0.1:5672/%2F"


def ask(method: str, path: str, config: dict[str, str] | None = None) -> None:
    """Ask the Connect worker for something."""
    request = urllib.request.Request(f"{REST}/connectors/{path}", method=method)
    request.add_header("Content-Type", "application/json")
    body = None if config is None else json.dumps(config).encode()
    urllib.request.urlopen(request, body, timeout=30).close()


as_text = {"key.converter": "String", "value.converter": "String"}
with pika.BlockingConnection(pika.URLParameters(QUEUES)) as connection:
    channel = connection.channel()
    for queue in ("example-jobs", "example-done"):
        channel.queue_declare(queue, durable=True)
    for number in (1, 2, 3):
        properties = pika.BasicProperties(message_id=f"job-{number}", delivery_mode=2)
        channel.basic_publish("", "example-jobs", f"paint wall {number}", properties)

    ask(
        "PUT",
        "example-jobs-in/config",
        {
            "connector.class": "AmqpSource",
            "url": QUEUES,
            "queues": "example-jobs",
            "topic": "example-jobs",
            "format": "text",
            **as_text,
        },
    )
    ask(
        "PUT",
        "example-jobs-out/config",
        {
            "connector.class": "AmqpSink",
            "url": QUEUES,
            "topics": "example-jobs",
            "routing.key": "example-done",
            **as_text,
        },
    )
    done = 0
    while done < 3:
        method, properties, body = channel.basic_get("example-done", auto_ack=True)
        if body is None:
            time.sleep(0.1)
            continue
        done += 1
        print(f"{properties.message_id}: {body.decode()}")

    for name in ("example-jobs-in", "example-jobs-out"):
        ask("DELETE", name)
    time.sleep(1)  # until the connectors have let go of the queues
    for queue in ("example-jobs", "example-done"):
        channel.queue_delete(queue)
