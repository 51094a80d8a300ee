"""Exactly once: the invoices and the commit are one transaction.

A worker that dies in between leaves an open transaction behind. The next one, under the same
transactional id, aborts it and starts from the last commit; who reads committed records never sees
the invoices of the dead one.
"""

import sys

from confluent_kafka import Consumer, Producer
from stage import Job, batches, invoice, play


def work(job: Job) -> None:
    """Turn orders into invoices, one each."""
    producer = Producer(
        {"bootstrap.servers": job.bootstrap_servers, "transactional.id": f"{job.group}-worker-1"}
    )
    # Before the consumer asks for its offsets: this ends what a predecessor has left open.
    producer.init_transactions()
    consumer = Consumer({**job.consumer_settings, "isolation.level": "read_committed"})
    consumer.subscribe([job.orders])
    for number, batch in batches(consumer):
        producer.begin_transaction()
        for order in batch:
            producer.produce(job.invoices, key=order.key(), value=invoice(order))
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
        )
        producer.flush()
        job.may_crash_here(number)
        producer.commit_transaction()
    consumer.close()


if __name__ == "__main__":
    sys.exit(play("Exactly once", work))
