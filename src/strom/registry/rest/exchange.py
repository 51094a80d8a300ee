"""What all routes share: arguments of a request, responses in the interface's content type."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response

from strom.http.errors import ErrorFormat, HttpError
from strom.http.json_body import read_body
from strom.http.json_thread import load_json_object
from strom.registry.formats.schema import SchemaType
from strom.registry.records import (
    Content,
    SchemaVersion,
    content_of,
    content_to_json,
    to_json_bytes,
)
from strom.registry.refusals import RestError, invalid_schema, invalid_version
from strom.registry.registering import HIGHEST_NUMBER, SchemaRequest
from strom.registry.registry import Registry
from strom.registry.rest.contracts import validated
from strom.registry.subjects import LATEST

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
ALL_CONTEXTS = ":*:"
DEFAULT_CONTEXT = ":.:"
SERIALIZED = "serialized"
MAX_DIGITS = 10
_SCHEMA_THREADS = CapacityLimiter(16)
"""More than child processes parse at a time: a schema that takes long occupies a thread, too."""
Result = TypeVar("Result")


def json_response(value: Any, status: int = 200) -> Response:
    return Response(to_json_bytes(value), status, media_type=CONTENT_TYPE)


def _translate(error: Exception) -> HttpError | None:
    if isinstance(error, RestError):
        return HttpError(error.status, str(error), code=error.code)
    return None


ERRORS = ErrorFormat(
    "The schema registry",
    lambda error: {"error_code": error.code, "message": error.message},
    _translate,
    CONTENT_TYPE,
)


def subject_of(request: Request) -> str:
    """The subject in the path, which may contain slashes."""
    subject: str = request.path_params["subject"]
    return subject.removeprefix(DEFAULT_CONTEXT)


def version_of(request: Request) -> int:
    """The version in the path: a number, or LATEST."""
    text = request.path_params["version"].strip()
    if text.lower() in {"latest", "-1"}:
        return LATEST
    number = whole_number(text)
    if not number:
        invalid_version(text)
    return number


def whole_number(text: str) -> int | None:
    """A number in a path, at most HIGHEST_NUMBER; None if it is none. Python limits their digits."""
    if not (text.isascii() and text.isdigit()) or len(text) > MAX_DIGITS:
        return None
    return int(text) if int(text) <= HIGHEST_NUMBER else None


def flag(request: Request, name: str) -> bool:
    """A query parameter that is true or false; false if it is missing."""
    return request.query_params.get(name, "").lower() == "true"


def page(request: Request, values: list[Any]) -> list[Any]:
    """The part of a list that the parameters `offset` and `limit` select."""
    offset, limit = _number(request, "offset", 0), _number(request, "limit", -1)
    return values[offset:] if limit < 0 else values[offset : offset + limit]


def prefix_of(request: Request) -> str:
    """The prefix that selects subjects; contexts are not supported beyond the default one."""
    text = request.query_params.get("subjectPrefix", "")
    return text.removeprefix(ALL_CONTEXTS).removeprefix(DEFAULT_CONTEXT)


async def body_of(request: Request) -> dict[str, Any]:
    return await load_json_object(await read_body(request.receive))


async def run_with_schema(work: Callable[..., Result], *arguments: Any) -> Result:
    """Parse and compare schemas in one of a few threads, so that others remain for other requests."""
    return await to_thread.run_sync(work, *arguments, limiter=_SCHEMA_THREADS)


def schema_request(request: Request, given: Mapping[str, Any]) -> SchemaRequest:
    """The schema in the body, for the subject in the path."""
    return SchemaRequest(
        subject_of(request),
        _content(given),
        flag(request, "normalize"),
        _chosen(given, "id"),
        _chosen(given, "version"),
    )


def to_json(entry: SchemaVersion) -> dict[str, Any]:
    return {
        "subject": entry.subject,
        "version": entry.version,
        "id": entry.id,
        **content_to_json(entry.content),
        **({"deleted": True} if entry.deleted else {}),
    }


def in_format(registry: Registry, content: Content, request: Request) -> Content:
    """The schema in the format that the request names: Protobuf as its serialized descriptor in base64.

    Unknown formats are ignored, as Confluent's registry does.
    """
    is_serialized = request.query_params.get("format") == SERIALIZED
    if not is_serialized or content.kind is not SchemaType.PROTOBUF:
        return content
    from strom.registry.formats.protobuf.schema import ProtobufSchema

    parsed = registry.parse_content(content)
    assert isinstance(parsed, ProtobufSchema)  # noqa: S101 - by its kind
    return replace(content, text=parsed.serialized)


def _content(given: Mapping[str, Any]) -> Content:
    kind = given.get("schemaType") or "AVRO"
    if kind not in tuple(SchemaType):  # a tuple, since JSON values may be unhashable
        invalid_schema(f"Invalid schema type {kind}")
    text = given.get("schema")
    if not isinstance(text, str | None):
        invalid_schema("The schema must be a string, with the text of the schema in it.")
    try:
        return content_of({**validated(given), "schema": text or ""})
    except (KeyError, TypeError, ValueError):
        invalid_schema("A reference needs a name, a subject and a version.")


def _chosen(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None or value in (
        0,
        -1,
    ):  # clients send 0 or -1 to leave the choice to the registry
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise RestError(422, f"{name} must be a number.")
    return value


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        return int(text) if name == "limit" else max(0, int(text))
    except ValueError:
        raise RestError(404, f"{name} must be a number, not {text!r}.") from None
