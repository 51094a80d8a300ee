"""Host names and addresses as HTTP headers and settings write them, in one canonical form."""

import functools
import ipaddress
import re
from typing import NamedTuple, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_LENGTH = 300
MAX_PORT = 65535
_AUTHORITY = re.compile(
    # A zone id ("%eth0", in URLs "%25eth0") names an interface of the client, not another host.
    r"(?:\[(?P<v6>[0-9a-f:.]+)(?:%[\w.~%-]+)?\]|(?P<name>[a-z0-9_.-]+))(?::(?P<port>[0-9]{0,5}))?",
    re.ASCII,
)


class Authority(NamedTuple):
    """A host with its port, if one was written."""

    host: str
    """In lower case, without trailing dot, brackets and zone id; an address in its shortest form."""
    port: int | None
    address: Address | None
    """None if the host is a name."""


@functools.lru_cache(maxsize=1024)
def parse_authority(text: str) -> Authority | None:
    """Parse `host`, `host:port` or `[ipv6]:port`; None if it is malformed."""
    if len(text) > MAX_LENGTH or not text.isascii():
        return None
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None:
        return None
    port = int(found["port"]) if found["port"] else None
    if port is not None and port > MAX_PORT:
        return None
    # "localhost." and "127.0.0.1." are the fully qualified forms of the same hosts.
    name = found["v6"] or found["name"].removesuffix(".")
    address = _parse_address(name)
    if address is not None:
        return Authority(str(address), port, address)
    is_name = found["v6"] is None and all(name.split("."))
    return Authority(name, port, None) if is_name else None


def parse_host(text: str) -> Authority | None:
    """Parse a host as in settings: without a port, an IPv6 address with or without brackets."""
    parsed = parse_authority(f"[{text}]" if text.count(":") > 1 and text[0] != "[" else text)
    return parsed if parsed is not None and parsed.port is None else None


def format_authority(host: str, port: int) -> str:
    """Write `host:port` for a URL: an IPv6 address needs brackets."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def _parse_address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
