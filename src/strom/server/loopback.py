"""Whether a client is on this machine, by its own address and not by that of the listener."""

import ipaddress

LOOPBACK_USER = "guest"
"""A user that may log in only from this machine, as in RabbitMQ: its password is well known."""


def may_log_in(user: str, host: str) -> bool:
    """Whether a user may log in from that host."""
    if user != LOOPBACK_USER:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
