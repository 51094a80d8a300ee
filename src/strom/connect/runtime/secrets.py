"""References to secrets in configurations: resolved when a task starts, and never shown.

`${env:NAME}` is an environment variable, `${file:/path/to.properties:key}` a line of a properties
file, `${file:/path}` and `${dir:/folder:file}` a whole file. As in Kafka, `${provider:path:key}`.
"""

import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from strom.connect.api import InvalidSettings

# Any client sends such texts: possessive quantifiers, so that no attempt backtracks.
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:${]++):(?:(?P<path>[^}:]*+):)?+(?P<key>[^}]*+)\}")
HIDDEN = "[hidden]"
_MIN_LENGTH = 4
"""Hiding shorter values would mangle every text, and no password should be that short."""


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
