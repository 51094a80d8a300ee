"""JSON pointers (RFC 6901): where in a document something stands."""

from typing import Any


class NotThere(LookupError):
    """The document has nothing at the pointer."""


def is_pointer(text: str) -> bool:
    """Whether a text can be a pointer: nothing (the whole document), or steps that begin with /."""
    return text == "" or text.startswith("/")


def resolve(document: Any, pointer: str) -> Any:
    """What stands at the pointer, or NotThere."""
    found = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, TypeError, ValueError):
            raise NotThere(f"there is nothing at {pointer}") from None
    return found


def look_up(document: Any, pointer: str | None) -> Any:
    """What stands at the pointer; None if there is no pointer, or nothing there."""
    if pointer is None:
        return None
    try:
        return resolve(document, pointer)
    except NotThere:
        return None
