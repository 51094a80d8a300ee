"""Values of AMQP field tables, which `wire` encodes and queues interpret."""

from typing import Any, TypeAlias

Table: TypeAlias = dict[str, Any]
"""Names with values: bool, int, float, Decimal, str, bytes, Timestamp, None, lists and tables."""


class Timestamp(int):
    """Seconds since 1970 as in a field table: any 64 bits, so that not every value is a date."""

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"
