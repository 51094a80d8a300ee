"""At least once: process, then commit.

A worker that dies in between has not said that the orders are done. The next one does them again.
"""

import sys

from confluent_kafka import Consumer, Producer
from stage import Job, batches, invoice, play


def work(job: Job) -> None:
    """Turn orders into invoices; some may get two."""
    producer = Producer({"bootstrap.servers": job.bootstrap_servers})
    consumer = Consumer(job.consumer_settings)
    consumer.subscribe([job.orders])
    for number, batch in batches(consumer):
        for order in batch:
            producer.produce(job.invoices, key=order.key(), value=invoice(order))
        producer.flush()
        job.may_crash_here(number)
        consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    sys.exit(play("At least once", work))
