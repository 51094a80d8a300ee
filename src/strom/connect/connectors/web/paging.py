"""Pagination of HTTP interfaces, and the JSON pointers that address values in their responses.

A page is identified by what is stored in offsets: None for the first, then a link or cursor (a
string), or a page number or record offset (an integer).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

from strom.connect.connectors.web.http_client import HttpResponse

Page: TypeAlias = str | int | None


class Paging(ABC):
    """How pages are requested, and which one comes next."""

    def request(self, url: str, page: Page) -> tuple[str, Mapping[str, str]]:
        """The address and the query parameters of a page."""
        return url, {}

    @abstractmethod
    def after(self, page: Page, response: HttpResponse, document: Any, count: int) -> Page:
        """The page after one with `count` records; None if it was the last."""


class SinglePage(Paging):
    """All records are in one response."""

    def after(self, page: Page, response: HttpResponse, document: Any, count: int) -> Page:
        return None


class LinkedPages(Paging):
    """Each page links to the next, in its body or in its `Link` header (RFC 8288)."""

    def __init__(self, pointer: str | None) -> None:
        """Without a pointer, the link is in the header."""
        self._pointer = pointer

    def request(self, url: str, page: Page) -> tuple[str, Mapping[str, str]]:
        return (page if isinstance(page, str) else url), {}

    def after(self, page: Page, response: HttpResponse, document: Any, count: int) -> Page:
        """The link as an absolute address; links to other servers would get the credentials."""
        if self._pointer is None:
            link = _next_link(response.headers.get("link"))
        else:
            link = look_up(document, self._pointer)
        if not isinstance(link, str) or not link:
            return None
        try:
            target, here = urlsplit(urljoin(response.url, link)), urlsplit(response.url)
        except ValueError:
            return None  # malformed
        if target.netloc != here.netloc:
            return None
        # A server behind a proxy that terminates TLS writes http into its links: https is kept.
        return target._replace(scheme="https" if here.scheme == "https" else target.scheme).geturl()


class CursorPages(Paging):
    """Each page holds a token, with which the next one is requested."""

    def __init__(self, pointer: str, parameter: str) -> None:
        self._pointer = pointer
        self._parameter = parameter

    def request(self, url: str, page: Page) -> tuple[str, Mapping[str, str]]:
        return url, {} if page is None else {self._parameter: str(page)}

    def after(self, page: Page, response: HttpResponse, document: Any, count: int) -> Page:
        """The next token; a page that returns its own token is the last, until there are records."""
        token = look_up(document, self._pointer)
        return str(token) if token not in (None, "", False) and str(token) != page else None


class NumberedPages(Paging):
    """Pages have numbers or record offsets; an empty page is the last."""

    def __init__(
        self, parameter: str, first: int, size: tuple[str, int] | None, *, by_record: bool
    ) -> None:
        self._parameter = parameter
        self._first = first
        self._size = size
        self._by_record = by_record

    def request(self, url: str, page: Page) -> tuple[str, Mapping[str, str]]:
        parameters = {self._parameter: str(self._first if page is None else page)}
        if self._size is not None:
            parameters[self._size[0]] = str(self._size[1])
        return url, parameters

    def after(self, page: Page, response: HttpResponse, document: Any, count: int) -> Page:
        """The next number; a page that is not full is the last."""
        if count == 0 or (self._size is not None and count < self._size[1]):
            return None
        present = page if isinstance(page, int) else self._first
        return present + (count if self._by_record else 1)


def _next_link(header: str | None) -> str | None:
    """The address with rel=next in a `Link` header."""
    for link in (header or "").split(","):
        address, *parameters = link.split(";")
        for parameter in parameters:
            name, _, value = parameter.strip().partition("=")
            if name.lower() == "rel" and "next" in value.strip('"').lower().split():
                return address.strip().strip("<>")
    return None


class PointerNotFound(LookupError):
    """The document has no value at the pointer."""


def is_pointer(text: str) -> bool:
    """Whether it is a JSON pointer (RFC 6901): empty for the whole document, or steps after /."""
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
