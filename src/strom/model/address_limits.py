"""Limits by IP address, as in Kafka's `max.connections.per.ip.overrides`."""

import ipaddress
from collections.abc import Iterable

from strom.model.errors import ApiError, ErrorCode


def normalized_address(host: str) -> str:
    """One text for every way to write an address; IPv4 mapped into IPv6 is the IPv4 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)


def parse_address_limits(setting: str, items: Iterable[str]) -> dict[str, int]:
    """Parse `address:limit` items; INVALID_CONFIG if one is something else."""
    limits = {}
    for item in items:
        host, _, limit = item.rpartition(":")
        try:
            ipaddress.ip_address(host)
            limits[normalized_address(host)] = int(limit)
        except ValueError:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value {item} for configuration {setting}: it is not an IP address and a "
                "number, as in 127.0.0.1:200.",
            ) from None
    return limits
