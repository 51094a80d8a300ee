"""A JSON Schema as the registry sees it."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

from strom.registry.formats import bounded_json
from strom.registry.formats.json_schema import differences
from strom.registry.formats.json_schema.documents import ROOT, Documents
from strom.registry.formats.json_schema.loading import Loader
from strom.registry.formats.schema import InvalidSchema, Kind, Parsed, Problem, Referenced

DRAFTS = {
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
}
DEFAULT_DRAFT = "Draft7Validator"
"""What a schema is that does not say: draft 7, as for Confluent's registry."""
NEW_DRAFTS = ("Draft201909Validator", "Draft202012Validator")


class JsonSchema(Parsed):
    """A valid JSON Schema, with the documents it refers to."""

    kind = Kind.JSON

    def __init__(self, document: Any, references: dict[str, Any]) -> None:
        self.document = document
        self._documents = Documents(document, references)
        self._draft = _draft(document)
        self._check()

    @classmethod
    def parse(cls, text: str, references: Sequence[Referenced]) -> Self:
        """Read a schema whose `$ref` may name its references."""
        known: dict[str, Any] = {}
        _add(references, known)
        return cls(bounded_json.read(text), known)

    @cached_property
    def canonical(self) -> str:
        """The document on one line."""
        return bounded_json.write(self.document)

    @cached_property
    def normalized(self) -> str:
        """The document on one line, its keys in order."""
        return bounded_json.write(self.document, sort_keys=True)

    def differences(self, written: Self) -> list[Problem]:
        """Compare what both accept."""
        return differences.problems(self._loader(), written._loader())

    def _loader(self) -> Loader:
        return Loader(self._documents, siblings_count=self._draft in NEW_DRAFTS)

    def _check(self) -> None:
        import jsonschema_rs

        if not isinstance(self.document, dict | bool):
            raise InvalidSchema("A JSON Schema is an object, or true, or false.")
        validator = getattr(jsonschema_rs, self._draft)
        try:
            # Without a retriever of ours it would fetch what is missing from the network.
            validator(self.document, base_uri=ROOT, retriever=self._documents.retrieve)
        except jsonschema_rs.ValidationError as error:
            place = "/".join(map(str, error.instance_path))
            raise InvalidSchema(f"At #/{place}: {error.message.replace(ROOT, '')}.") from error
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise InvalidSchema(str(error).replace(ROOT, "")) from error


def _add(references: Sequence[Referenced], known: dict[str, Any]) -> None:
    for referenced in references:
        _add(referenced.references, known)
        try:
            known.setdefault(referenced.name, bounded_json.read(referenced.text))
        except InvalidSchema as error:
            raise InvalidSchema(f"In the reference {referenced.name}: {error}") from error


def _draft(document: Any) -> str:
    said = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(said, str):
        return DEFAULT_DRAFT
    uri = said.rstrip("#")
    for secure in (uri, uri.replace("http:", "https:", 1), uri.replace("https:", "http:", 1)):
        if secure in DRAFTS:
            return DRAFTS[secure]
    return DEFAULT_DRAFT
