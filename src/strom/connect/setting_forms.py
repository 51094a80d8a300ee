"""The forms that most settings have; each is a `setting` with the rest filled in."""

from collections.abc import Sequence
from typing import Any

from strom.connect.api.settings import Kind, setting


def string(name: str, doc: str, default: str | None = None, **more: Any) -> Any:
    return setting(name, Kind.STRING, doc, default, **more)


def secret(name: str, doc: str, default: str | None = None, **more: Any) -> Any:
    return setting(name, Kind.PASSWORD, doc, default, **more)


def choice(
    name: str,
    doc: str,
    choices: Sequence[str],
    default: str | None = None,
    *,
    required: bool = False,
    **more: Any,
) -> Any:
    """One of several texts; by default the first, if it is not required."""
    default = default or ("" if required else choices[0])
    more = {"choices": tuple(choices), "required": required, **more}
    return setting(name, Kind.STRING, doc, default, **more)


def strings(name: str, doc: str, *, required: bool = False, **more: Any) -> Any:
    """A list; empty by default, if it is not required."""
    return setting(name, Kind.LIST, doc, None if required else (), required=required, **more)


def boolean(name: str, doc: str, default: bool = False, **more: Any) -> Any:
    return setting(name, Kind.BOOLEAN, doc, default, **more)


def integer(
    name: str, doc: str, default: int | None = None, minimum: int | None = 1, **more: Any
) -> Any:
    """A number of 32 bits; positive, if no other minimum is given."""
    return setting(name, Kind.INT, doc, default, minimum=minimum, **more)


def milliseconds(name: str, doc: str, default: int | None = None, minimum: int = 0) -> Any:
    """A time that may be 0, if no other minimum is given."""
    return setting(name, Kind.LONG, doc, default, minimum=minimum)
