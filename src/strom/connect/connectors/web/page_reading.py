"""Web pages: their fields by CSS selectors, and their links."""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from strom.connect.api import Schema, Type
from strom.connect.api.schema import OPTIONAL_STRING, STRING, struct

_ATTRIBUTE = re.compile(r"(.*)@([\w:-]+)\s*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_LOCATION = re.compile(r"<loc>\s*(.*?)\s*</loc>", re.DOTALL)
_TEXTS = Schema(Type.ARRAY, optional=True, value=STRING)


@dataclass(frozen=True)
class FieldSelector:
    """How to find a field's text: `price: .price`, `image: img@src`, `tags[]: .tag`."""

    name: str
    selector: str
    attribute: str | None = None
    many: bool = False

    @classmethod
    def parse(cls, text: str) -> "FieldSelector":
        """Parse the setting's syntax; ValueError if it is malformed."""
        name, colon, selector = (part.strip() for part in text.partition(":"))
        many = name.endswith("[]")
        name = name.removesuffix("[]").strip()
        if not colon or not selector or not _NAME.fullmatch(name):
            raise ValueError(f"`{text.strip()}` does not have the form `name: selector`")
        attribute = None
        if found := _ATTRIBUTE.fullmatch(selector):
            selector, attribute = found[1].strip(), found[2]
        check_selector(selector)
        return cls(name, selector, attribute, many)

    def read(self, node: LexborNode | LexborHTMLParser) -> str | list[str] | None:
        """The field's text; a list of all texts if the field is written with []."""
        if self.many:
            found = (self._text(one) for one in node.css(self.selector))
            return [text for text in found if text is not None]
        first = node.css_first(self.selector) if self.selector else node
        return None if first is None else self._text(first)

    def _text(self, node: Any) -> str | None:
        if self.attribute is not None:
            value: str | None = node.attributes.get(self.attribute)
            return value
        return " ".join(node.text(separator=" ").split())


PLAIN_FIELDS = (FieldSelector("title", "title"), FieldSelector("text", "body"))
"""The default of the setting `fields`."""


def parse_fields(text: str | None) -> tuple[FieldSelector, ...]:
    """Parse all fields of the setting, which are separated by |; ValueError if one is malformed."""
    if not text:
        return PLAIN_FIELDS
    fields = tuple(FieldSelector.parse(part) for part in text.split("|") if part.strip())
    names = [field.name for field in fields]
    if len(set(names)) < len(names) or "url" in names:
        raise ValueError("field names must be unique, and `url` is always the page's address")
    return fields


def check_selector(selector: str) -> None:
    """ValueError unless the text is a CSS selector or empty."""
    try:
        if selector:
            LexborHTMLParser("<p></p>").css(selector)
    except SelectolaxError as error:
        raise ValueError(f"`{selector}` is not a CSS selector ({error})") from None


def schema_of(fields: tuple[FieldSelector, ...]) -> Schema:
    schemas: Mapping[str, Schema] = {
        field.name: _TEXTS if field.many else OPTIONAL_STRING for field in fields
    }
    return struct({"url": STRING, **schemas})


class WebPage:
    def __init__(self, url: str, body: bytes, charset: str | None = None) -> None:
        """Without a charset, the parser detects the page's encoding."""
        self.url = url
        text: bytes | str = body
        if charset is not None:
            try:
                text = body.decode(charset, "replace")
            except LookupError:
                pass  # an unknown charset: the parser detects the encoding
        self._tree = LexborHTMLParser(text)

    def read(self, item: str | None, fields: tuple[FieldSelector, ...]) -> list[dict[str, Any]]:
        """Read the fields: of each element that `item` selects, or of the page."""
        if fields is PLAIN_FIELDS:
            self._tree.strip_tags(["script", "style", "template", "noscript"])
        nodes = self._tree.css(item) if item else [self._tree]
        return [
            {"url": self.url, **{field.name: field.read(node) for field in fields}}
            for node in nodes
        ]

    def links(self) -> Iterator[str]:
        """The targets of the page's links, as absolute addresses without fragments."""
        base = self._tree.css_first("base[href]")
        origin = page_address(self.url, (base.attributes.get("href") or "") if base else "")
        for node in self._tree.css("a[href]"):
            if "nofollow" in (node.attributes.get("rel") or "").lower().split():
                continue
            address = page_address(origin or self.url, node.attributes.get("href") or "")
            if address is not None:
                yield address


def page_address(origin: str, link: str) -> str | None:
    """The target of a link, without its fragment; None if it is not an HTTP address."""
    try:
        address = urldefrag(urljoin(origin, link.strip())).url
        return address if urlsplit(address).scheme in {"http", "https"} else None
    except ValueError:
        return None  # malformed


def sitemap_locations(text: str) -> list[str]:
    """The addresses in a sitemap, or in an index of sitemaps."""
    return [html.unescape(found) for found in _LOCATION.findall(text)]
