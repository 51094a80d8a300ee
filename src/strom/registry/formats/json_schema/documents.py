"""The JSON documents of a schema and its references, and finding a place in them by its URI."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from strom.registry.formats.schema import InvalidSchema

ROOT = "http://schema.invalid/"
"""Where a document lives that does not say where; relative references start here."""

# Inside these, `$id` and `$ref` are data and not keywords.
DATA_WORDS = frozenset(("enum", "const", "default", "examples"))


class Place(NamedTuple):
    """A value in a document, with the URI that references inside of it are relative to."""

    value: Any
    base: str


class Documents:
    """A schema and what it refers to, by URI."""

    def __init__(self, root: Any, references: Mapping[str, Any]) -> None:
        self._places: dict[str, Place] = {}
        self.base = base_inside(root, ROOT)
        for name, document in references.items():
            for uri in (urljoin(ROOT, name), urljoin(self.base, name)):
                self._index(document, uri)
        self._index(root, ROOT)

    def retrieve(self, uri: str) -> Any:
        """Return a whole document; this is how a validator asks for it."""
        place = self._places.get(uri) or self._places.get(uri.rstrip("#"))
        if place is None:
            raise InvalidSchema(f"{uri.removeprefix(ROOT)} is not among the references")
        return place.value

    def find(self, uri: str) -> Place:
        """Find the value that a reference means."""
        if uri in self._places:
            return self._places[uri]
        document, fragment = urldefrag(uri)
        if document not in self._places:
            raise InvalidSchema(f"{document.removeprefix(ROOT)} is not among the references")
        place = self._places[document]
        value, base = place
        for step in unquote(fragment).split("/")[1:]:
            value = _child(value, step.replace("~1", "/").replace("~0", "~"), uri)
            base = base_inside(value, base)
        return Place(value, base)

    def _index(self, document: Any, uri: str) -> None:
        self._places.setdefault(uri, Place(document, base_inside(document, uri)))
        for value, base in _schemas(document, uri):
            inner = base_inside(value, base)
            if inner != base:
                self._places.setdefault(inner.rstrip("#"), Place(value, inner))
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(value.get(word), str):
                    self._places.setdefault(f"{inner}#{value[word]}", Place(value, inner))
            local = value.get("$id", value.get("id"))
            if isinstance(local, str) and local.startswith("#"):  # an anchor before 2019
                self._places.setdefault(urljoin(base, local), Place(value, base))


def _schemas(document: Any, base: str) -> Iterator[tuple[dict[str, Any], str]]:
    waiting = [(document, base)]
    while waiting:
        value, base = waiting.pop()
        if isinstance(value, dict):
            yield value, base
            inner = base_inside(value, base)
            waiting += [(part, inner) for key, part in value.items() if key not in DATA_WORDS]
        elif isinstance(value, list):
            waiting += [(part, base) for part in value]


def base_inside(value: Any, base: str) -> str:
    """Tell the base URI inside of a value, which may set one by `$id` (draft 4: `id`)."""
    if not isinstance(value, dict):
        return base
    own = value.get("$id", value.get("id"))
    if not isinstance(own, str) or own.startswith("#"):
        return base
    return urldefrag(urljoin(base, own)).url


def _child(value: Any, step: str, uri: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    raise InvalidSchema(f"{uri.removeprefix(ROOT)} leads nowhere")
