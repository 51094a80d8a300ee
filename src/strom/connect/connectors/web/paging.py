"""How one gets from a page of an HTTP interface to the next.

A page is told by what is stored in offsets: None for the first, then a link or cursor (a string), or
a page's number or the count of records before it (an integer).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

from strom.connect.connectors.web.calling import Answer
from strom.connect.connectors.web.json_pointer import look_up

Page: TypeAlias = str | int | None


class Paging(ABC):
    """A way from page to page; this is the way of those that have only one."""

    def request(self, url: str, page: Page) -> tuple[str, Mapping[str, str]]:
        """The address and the parameters with which a page is asked for."""
        return url, {}

    @abstractmethod
    def after(self, page: Page, answer: Answer, document: Any, count: int) -> Page:
        """The page after one with so many records; None if there is none."""


class SinglePage(Paging):
    """Everything is in one answer."""

    def after(self, page: Page, answer: Answer, document: Any, count: int) -> Page:
        """None: this was all."""
        return None


class LinkedPages(Paging):
    """Each page holds the address of the next, in its text or in its `Link` header."""

    def __init__(self, pointer: str | None) -> None:
        """Without a pointer, the header counts."""
        self._pointer = pointer

    def request(self, url: str, page: Page) -> tuple[str, Mapping[str, str]]:
        """A later page has an address of its own."""
        return (page if isinstance(page, str) else url), {}

    def after(self, page: Page, answer: Answer, document: Any, count: int) -> Page:
        """The link, made whole; links to other servers are not followed, for credentials' sake."""
        if self._pointer is None:
            link = _next_link(answer.headers.get("link"))
        else:
            link = look_up(document, self._pointer)
        if not isinstance(link, str) or not link:
            return None
        try:
            whole, here = urlsplit(urljoin(answer.url, link)), urlsplit(answer.url)
        except ValueError:
            return None  # not an address at all
        if whole.netloc != here.netloc:
            return None
        # A server behind a proxy that ends TLS writes http into its links: https is kept.
        return whole._replace(scheme="https" if here.scheme == "https" else whole.scheme).geturl()


class CursorPages(Paging):
    """Each page holds a token, with which the next is asked for."""

    def __init__(self, pointer: str, parameter: str) -> None:
        self._pointer = pointer
        self._parameter = parameter

    def request(self, url: str, page: Page) -> tuple[str, Mapping[str, str]]:
        """The token as a parameter."""
        return url, {} if page is None else {self._parameter: str(page)}

    def after(self, page: Page, answer: Answer, document: Any, count: int) -> Page:
        """The next token; a page that gives the token of itself is the last, for the time being."""
        token = look_up(document, self._pointer)
        return str(token) if token not in (None, "", False) and str(token) != page else None


class NumberedPages(Paging):
    """Pages have numbers, or begin after a number of records; an empty one is the last."""

    def __init__(
        self, parameter: str, first: int, size: tuple[str, int] | None, *, by_record: bool
    ) -> None:
        self._parameter = parameter
        self._first = first
        self._size = size
        self._by_record = by_record

    def request(self, url: str, page: Page) -> tuple[str, Mapping[str, str]]:
        """The number as a parameter, and the size where one is wanted."""
        parameters = {self._parameter: str(self._first if page is None else page)}
        if self._size is not None:
            parameters[self._size[0]] = str(self._size[1])
        return url, parameters

    def after(self, page: Page, answer: Answer, document: Any, count: int) -> Page:
        """The next number; a page that is not full is the last."""
        if count == 0 or (self._size is not None and count < self._size[1]):
            return None
        present = page if isinstance(page, int) else self._first
        return present + (count if self._by_record else 1)


def _next_link(header: str | None) -> str | None:
    """The address that a `Link` header gives for rel=next."""
    for link in (header or "").split(","):
        address, *parameters = link.split(";")
        for parameter in parameters:
            name, _, value = parameter.strip().partition("=")
            if name.lower() == "rel" and "next" in value.strip('"').lower().split():
                return address.strip().strip("<>")
    return None
