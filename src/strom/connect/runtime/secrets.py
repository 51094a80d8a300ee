"""Secrets in configurations: references are resolved when a task starts, and no secret is shown.

`${env:NAME}` is an environment variable, `${file:/path/to.properties:key}` a line of a properties
file, `${file:/path}` and `${dir:/folder:file}` a whole file. As in Kafka, `${provider:path:key}`.

Passwords that a configuration contains itself are masked where it is shown. References are no secrets,
and stay as they are.
"""

import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from strom.connect.api import InvalidSettings

# Any client sends such texts: possessive quantifiers, so that no attempt backtracks.
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:${]++):(?:(?P<path>[^}:]*+):)?+(?P<key>[^}]*+)\}")
HIDDEN = "[hidden]"
_MIN_LENGTH = 4
"""Hiding shorter values would mangle every text, and no password should be that short."""

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


def has_reference(text: str) -> bool:
    """Whether a text contains a reference."""
    return _REFERENCE.search(text, 0, _end_of_references(text)) is not None


def _end_of_references(text: str) -> int:
    """Where the last one may end; after it, the search of each `${` would scan the rest of the text."""
    return text.rfind("}") + 1


class Secrets:
    """Resolves references, and hides their values in texts for users."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._lock = threading.Lock()

    def resolve(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Replace references by their values; InvalidSettings if one cannot be resolved."""
        problems: dict[str, list[str]] = {}
        resolved: dict[str, str] = {}
        for name, text in texts.items():
            try:
                end = _end_of_references(text)
                resolved[name] = _REFERENCE.sub(self._look_up, text[:end]) + text[end:]
            except _Missing as missing:
                problems[name] = [f"{name}: {missing}"]
        if problems:
            raise InvalidSettings(problems)
        return resolved

    def keep_hidden(self, values: Iterable[str]) -> None:
        """Hide these values too: passwords that a configuration contains itself."""
        with self._lock:
            self._values.update(value for value in values if len(value) >= _MIN_LENGTH)

    def hide(self, text: str) -> str:
        """Replace every known secret in a text."""
        with self._lock:
            values = sorted(self._values, key=len, reverse=True)
        for value in values:
            text = text.replace(value, HIDDEN)
        return text

    def _look_up(self, reference: re.Match[str]) -> str:
        provider, path, key = reference["provider"], reference["path"] or "", reference["key"]
        if provider == "env":
            value = _variable(key)
        elif provider == "file":
            value = _property(path, key) if path else _content(key)
        elif provider in {"dir", "directory"}:
            value = _content(str(Path(path) / key))
        else:
            raise _Missing(
                f"Unknown provider {provider}: use ${{env:…}}, ${{file:…}} or ${{dir:…}}."
            )
        self.keep_hidden([value])
        return value


class _Missing(Exception):
    """A reference that cannot be resolved."""


def _variable(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise _Missing(f"The worker has no environment variable {name}.") from None


def _content(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _Missing(f"The worker cannot read {path}: {type(error).__name__}.") from None


def _property(path: str, key: str) -> str:
    for line in _content(path).splitlines():
        name, separator, value = line.partition("=")
        if separator and name.strip() == key and not line.lstrip().startswith(("#", "!")):
            return value.strip()
    raise _Missing(f"{path} has no line {key}=….")


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
