"""Masks passwords in configurations that are shown.

References (`${env:NAME}`) are no secrets, and stay as they are.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from strom.connect.runtime.secrets import HIDDEN, has_reference

_SECRET_NAME = re.compile(
    r"(password|passphrase|user\.info|jaas\.config|key\.pem|keystore\.key|(^|\.)(secret|token))$"
)
"""Settings of Kafka's clients, converters and connectors whose whole value is a secret."""

_IN_ADDRESS = re.compile(r"(?<=://)(?P<before>[^/@\s,:]*:)(?P<secret>[^/\s,]+)(?=@)")
_IN_QUERY = re.compile(r"(?i)(?P<before>[?&;](?:\w+\.)*\w*password=)(?P<secret>[^&;\s]+)")
_IN_HEADERS = re.compile(
    r"(?i)(?P<before>(?:^|\|)\s*+(?=(?:authorization|proxy-authorization|cookie)(?![\w-])"
    r"|[\w-]*?(?:key|token|secret|password))[\w-]++\s*+:\s*+)"
    r"(?P<secret>[^|]*[^|\s])"
)
"""Of HTTP requests, as in `headers=Accept: text/html | Authorization: Bearer abc`."""


def masked(config: Mapping[str, str], passwords: Collection[str] = ()) -> dict[str, str]:
    """A configuration with its secrets masked; `passwords` are settings declared to be secret."""
    return {name: _masked(name, text, passwords) for name, text in config.items()}


def unmasked(config: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """A masked configuration that a client sends back, with the stored secrets."""
    return {
        name: stored[name]
        if HIDDEN in text and name in stored and text in (HIDDEN, _masked(name, stored[name], ()))
        else text
        for name, text in config.items()
    }


def secrets_in(config: Mapping[str, str], passwords: Collection[str] = ()) -> Iterator[str]:
    """Every secret in a configuration, without references."""
    for name, text in config.items():
        if name in passwords or _SECRET_NAME.search(name):
            found = [text]
        else:
            found = [one["secret"] for kind in _patterns(name) for one in kind.finditer(text)]
        yield from (secret for secret in found if not has_reference(secret))


def _masked(name: str, text: str, passwords: Collection[str]) -> str:
    if name in passwords or _SECRET_NAME.search(name):
        return text if not text or has_reference(text) else HIDDEN
    for pattern in _patterns(name):
        text = pattern.sub(_hidden, text)
    return text


def _patterns(name: str) -> tuple[re.Pattern[str], ...]:
    return (_IN_HEADERS,) if name == "headers" else (_IN_ADDRESS, _IN_QUERY)


def _hidden(found: re.Match[str]) -> str:
    secret = found["secret"]
    return found["before"] + (secret if has_reference(secret) else HIDDEN)
