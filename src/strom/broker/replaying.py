"""Reading a whole log again, as what is rebuilt from it at start-up needs it."""

from collections.abc import Iterator

from strom.model.errors import ApiError, CorruptData
from strom.storage.log import Log
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import Record, read_records

_READ_BYTES = 1 << 20


def records_of(log: Log) -> Iterator[Record]:
    """Every record from the log's start on; CorruptData if it cannot be read to its end."""
    if log.quarantined:
        raise CorruptData(log.quarantined)
    offset = log.start_offset
    while offset < log.high_watermark:
        try:
            data = log.read(offset, _READ_BYTES).data
        except ApiError as error:  # the damage was found only now, while reading
            raise CorruptData(error.message) from error
        before = offset
        for position, header in headers(data):
            if not header.is_control:
                for record in read_records(data, position, header):
                    if record.offset >= offset:
                        yield record
            offset = header.next_offset
        if offset == before:
            raise CorruptData(f"the log {log.partition} cannot be read at offset {offset}")
