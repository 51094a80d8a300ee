"""`strom bench`: the throughput of a broker, through librdkafka."""

import random
import secrets
from collections.abc import Iterator

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.options import acks_option, codec_option, count_option, json_option
from strom.cli.printing import human_count, notice, print_json, print_table
from strom.cli.progress import progress_bar
from strom.cli.throughput import BulkProducer, consume_all
from strom.client.topics import TopicAdmin
from strom.model.errors import UserError

DISTINCT_VALUES = 1000
CHUNK = 250_000
_WORDS = (b"stream", b"table", b"click", b"user", b"page", b"event", b"offset", b"window")


@click.command()
@count_option("-n", "--records", default=1_000_000, doc="Number of records.")
@count_option("-s", "--size", default=100, doc="Size of each record in bytes.")
@codec_option
@acks_option
@count_option("-p", "--partitions", default=1, doc="Partitions.")
@json_option
@connection_options
def bench(
    records: int,
    size: int,
    compression: str,
    acks: str,
    partitions: int,
    as_json: bool,
    connection: CliConnection,
) -> None:
    """Measure a broker's throughput.

    Creates a topic, and deletes it afterwards.
    """
    admin = TopicAdmin(connection)
    topic = f"strom-bench-{secrets.token_hex(4)}"
    admin.create(topic, partitions=partitions)
    try:
        values = _values(size)
        settings = {"compression.type": compression, "acks": acks}
        producer = BulkProducer(connection, topic, settings)
        producer.warm_up(values[0])
        with progress_bar(records, "produce") as report:
            producer.send(_chunks(values, records), report)
        with progress_bar(records, "consume") as report:
            received, seconds = consume_all(connection, topic, records + 1, report)
    finally:
        admin.delete(topic)
    if received <= records and acks != "0":
        raise UserError(f"Only {received} of {records + 1} records were read back.")
    results = {
        "produce": _rates(records, size, producer.seconds),
        "consume": _rates(received - 1, size, seconds),
    }
    if as_json:
        options = {
            "records": records,
            "size": size,
            "compression": compression,
            "acks": acks,
            "partitions": partitions,
        }
        print_json({**options, **results})
        return
    print_table(
        ("", "RECORDS/S", "MB/S", "SECONDS"),
        [
            (
                name,
                human_count(rates["records_per_second"]),
                f"{rates['megabytes_per_second']:.1f}",
                f"{rates['seconds']:.2f}",
            )
            for name, rates in results.items()
        ],
    )
    notice(
        f"{human_count(records)} records of {size} B, {compression} compression, acks={acks}, "
        f"{partitions} partition{'' if partitions == 1 else 's'}, at {connection.servers}."
    )


def _values(size: int) -> list[bytes]:
    """Words and numbers, which compress about as well as log lines; the same in every run."""
    chance = random.Random(1)  # noqa: S311 - not for cryptography
    values = []
    for _ in range(DISTINCT_VALUES):
        text = bytearray()
        while len(text) < size:
            text += b"%s=%d " % (chance.choice(_WORDS), chance.randrange(100_000))
        values.append(bytes(text[:size]))
    return values


def _chunks(values: list[bytes], count: int) -> Iterator[list[tuple[bytes | None, bytes]]]:
    pairs: list[tuple[bytes | None, bytes]] = [(None, value) for value in values]
    # Each chunk fills the client's queue, so that waiting for its acknowledgements costs little.
    whole = pairs * (CHUNK // len(pairs))
    while count > 0:
        yield whole[:count]
        count -= CHUNK


def _rates(count: int, size: int, seconds: float) -> dict[str, float]:
    return {
        "seconds": round(seconds, 4),
        "records_per_second": round(count / seconds),
        "megabytes_per_second": round(count * size / seconds / 1e6, 2),
    }
