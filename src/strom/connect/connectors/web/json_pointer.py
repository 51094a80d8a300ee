"""JSON pointers (RFC 6901), which address a value in a document."""

from typing import Any


class PointerNotFound(LookupError):
    """The document has no value at the pointer."""


def is_pointer(text: str) -> bool:
    """Whether a text is a pointer: empty for the whole document, or steps that begin with /."""
    return text == "" or text.startswith("/")


def resolve(document: Any, pointer: str) -> Any:
    """The value at the pointer, or PointerNotFound."""
    found = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, TypeError, ValueError):
            raise PointerNotFound(f"no value at {pointer}") from None
    return found


def look_up(document: Any, pointer: str | None) -> Any:
    """The value at the pointer; None if there is no pointer or no value."""
    if pointer is None:
        return None
    try:
        return resolve(document, pointer)
    except PointerNotFound:
        return None
