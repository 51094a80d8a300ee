"""Whether a peer is on this machine. Judged by where the peer is, never by where we listen."""

import ipaddress

LOOPBACK_USER = "guest"
"""Whoever goes by this name must be on this machine: everyone knows its password."""


def may_log_in(user: str, host: str) -> bool:
    """Whether a user may log in from there."""
    if user != LOOPBACK_USER:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
