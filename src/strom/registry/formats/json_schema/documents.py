"""The JSON documents of a schema and its references, and lookups in them by URI."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from strom.registry.formats.schema import InvalidSchema

ROOT = "http://schema.invalid/"
"""The base URI of a document without `$id`; relative references are resolved against it."""

# Inside these, `$id` and `$ref` are data and not keywords.
DATA_WORDS = frozenset(("enum", "const", "default", "examples"))


class SchemaLocation(NamedTuple):
    """A value in a document, with the base URI of the references inside it."""

    value: Any
    base: str


class Documents:
    """A schema and the documents that it refers to, by URI."""

    def __init__(self, root: Any, references: Mapping[str, Any]) -> None:
        self._places: dict[str, SchemaLocation] = {}
        self.base = base_inside(root, ROOT)
        for name, document in references.items():
            for uri in (_joined(ROOT, name), _joined(self.base, name)):
                self._index(document, uri)
        self._index(root, ROOT)

    def retrieve(self, uri: str) -> Any:
        """A whole document; validators call this."""
        place = self._places.get(uri) or self._places.get(uri.rstrip("#"))
        if place is None:
            raise InvalidSchema(f"{uri.removeprefix(ROOT)} is not among the references")
        return place.value

    def find(self, uri: str) -> SchemaLocation:
        """The value that a reference denotes."""
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
        return SchemaLocation(value, base)

    def _index(self, document: Any, uri: str) -> None:
        self._places.setdefault(uri, SchemaLocation(document, base_inside(document, uri)))
        for value, base in _schemas(document, uri):
            inner = base_inside(value, base)
            if inner != base:
                self._places.setdefault(inner.rstrip("#"), SchemaLocation(value, inner))
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(value.get(word), str):
                    self._places.setdefault(f"{inner}#{value[word]}", SchemaLocation(value, inner))
            local = value.get("$id", value.get("id"))
            if isinstance(local, str) and local.startswith("#"):  # an anchor before 2019
                self._places.setdefault(_joined(base, local), SchemaLocation(value, base))


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
    """The base URI inside a value, which may set it by `$id` (draft 4: `id`)."""
    if not isinstance(value, dict):
        return base
    own = value.get("$id", value.get("id"))
    if not isinstance(own, str) or own.startswith("#"):
        return base
    return urldefrag(_joined(base, own)).url


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError as error:  # as in http://[x
        raise InvalidSchema(f"{reference!r} is not a URI: {error}.") from error


def _child(value: Any, step: str, uri: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    raise InvalidSchema(f"{uri.removeprefix(ROOT)} does not exist")
