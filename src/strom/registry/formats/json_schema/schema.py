"""The JSON Schema implementation of a parsed schema."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

from strom.registry.formats import bounded_json
from strom.registry.formats.json_schema import differences
from strom.registry.formats.json_schema.documents import ROOT, Documents
from strom.registry.formats.json_schema.drafts import JsonSchemaDraft, draft_of
from strom.registry.formats.json_schema.loading import Loader
from strom.registry.formats.schema import (
    InvalidSchema,
    ParsedSchema,
    Problem,
    Referenced,
    SchemaType,
)


class JsonSchema(ParsedSchema):
    """A valid JSON Schema, with the documents it refers to."""

    kind = SchemaType.JSON

    def __init__(
        self,
        document: Any,
        references: dict[str, Any],
        *,
        is_checked: bool = False,
        lenient: bool = False,
    ) -> None:
        self.document = document
        self._lenient = lenient
        documents = Documents(document, references)
        draft = draft_of(document)
        if not (is_checked or lenient):
            _check(document, documents, draft)
        self._root = Loader(documents, draft, lenient=lenient).load()

    @classmethod
    def parse(
        cls,
        text: str,
        references: Sequence[Referenced],
        *,
        is_checked: bool = False,
        lenient: bool = False,
    ) -> Self:
        """Parse a schema whose `$ref`s may name its references.

        `is_checked` if a child process has validated it against its meta-schema, see `library_calls`.
        """
        known: dict[str, Any] = {}
        for referenced in references:
            try:
                known.setdefault(referenced.name, bounded_json.read(referenced.text))
            except InvalidSchema as error:
                raise InvalidSchema(f"In the reference {referenced.name}: {error}") from error
        return cls(bounded_json.read(text), known, is_checked=is_checked, lenient=lenient)

    @cached_property
    def canonical(self) -> str:
        """The document on one line."""
        return bounded_json.write(self.document)

    @cached_property
    def normalized(self) -> str:
        """The document on one line, with sorted keys."""
        return bounded_json.write(self.document, sort_keys=True)

    def differences(self, written: Self) -> list[Problem]:
        try:
            return differences.problems(self._root, written._root)
        except (AttributeError, KeyError, TypeError, ValueError):
            if not (self._lenient or written._lenient):
                raise
            return [Problem("MALFORMED_SCHEMA", "#", "a keyword of a stored schema is malformed")]


def _check(document: Any, documents: Documents, draft: JsonSchemaDraft) -> None:
    """Validate a document against its meta-schema, and check that its references exist."""
    import jsonschema_rs

    if not isinstance(document, dict | bool):
        raise InvalidSchema("A JSON Schema must be an object, true or false.")
    validator = getattr(jsonschema_rs, draft.validator)
    try:
        # Without this retriever, jsonschema-rs fetches missing documents from the network.
        validator(document, base_uri=ROOT, retriever=documents.retrieve)
    except jsonschema_rs.ValidationError as error:
        place = "/".join(map(str, error.instance_path))
        raise InvalidSchema(f"At #/{place}: {error.message.replace(ROOT, '')}.") from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InvalidSchema(str(error).replace(ROOT, "")) from error
