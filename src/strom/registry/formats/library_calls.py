"""The program of the child processes that call Google's compiler and jsonschema-rs.

Both libraries take exponential time for some references (`import public`, `$ref` between documents),
and the compiler quadratic time for maps, while nothing else runs in their process. Avro is parsed by
strom's own code, in linear time.
"""

import base64
from collections.abc import Callable, Sequence
from typing import Any

from strom.registry.formats.schema import InvalidSchema, Referenced
from strom.supervision.limited_calls import serve_calls


def parse_protobuf(text: str, references: Sequence[Sequence[str]], lenient: bool) -> dict[str, Any]:
    """The parts of a `ProtobufSchema`."""
    from strom.registry.formats.protobuf.schema import ProtobufSchema

    schema = ProtobufSchema.parse(text, _referenced(references), lenient=lenient)
    try:
        texts = {"canonical": schema.canonical, "normalized": schema.normalized}
    except TypeError as error:  # one of the limits of the library: not the compiler's
        raise InvalidSchema(f"The schema is not supported: {error}") from error
    files = [base64.b64encode(one.SerializeToString()).decode() for one in schema.files.values()]
    return {"path": schema.file.name, "files": files, "added": sorted(schema.added), **texts}


def check_json_schema(text: str, references: Sequence[Sequence[str]], lenient: bool) -> None:
    """Raise InvalidSchema unless the schema can be parsed.

    A lenient parse does without jsonschema-rs, but hostile base URIs and chains of `$ref` take even it
    much memory and time.
    """
    from strom.registry.formats.json_schema.schema import JsonSchema

    JsonSchema.parse(text, _referenced(references), lenient=lenient)


def _referenced(references: Sequence[Sequence[str]]) -> list[Referenced]:
    return [Referenced(*one) for one in references]


def _reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> dict[str, Any]:
        try:
            return {"valid": function(*arguments)}
        except InvalidSchema as error:
            return {"invalid": str(error)}
        except RecursionError:
            return {"invalid": "The schema is nested too deeply."}

    return call


if __name__ == "__main__":
    serve_calls(
        {
            "parse_protobuf": _reporting(parse_protobuf),
            "check_json_schema": _reporting(check_json_schema),
        }
    )
