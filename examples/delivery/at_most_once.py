"""At most once: commit, then process.

A worker that dies in between has said that the orders are done. Nobody does them.
"""

import sys

from confluent_kafka import Consumer, Producer
from stage import Job, batches, invoice, play


def work(job: Job) -> None:
    """Turn orders into invoices; some may never get one."""
    producer = Producer({"bootstrap.servers": job.bootstrap_servers})
    consumer = Consumer(job.consumer_settings)
    consumer.subscribe([job.orders])
    for number, batch in batches(consumer):
        consumer.commit(asynchronous=False)
        job.may_crash_here(number)
        for order in batch:
            producer.produce(job.invoices, key=order.key(), value=invoice(order))
        producer.flush()
    consumer.close()


if __name__ == "__main__":
    sys.exit(play("At most once", work))
