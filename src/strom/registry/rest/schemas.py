"""/schemas: by id, and lists of them."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from strom.http.errors import HttpError
from strom.http.routing import EncodedRoute
from strom.registry.formats.schema import SchemaType
from strom.registry.records import Content, SchemaVersion, content_to_json, to_json_bytes
from strom.registry.refusals import schema_not_found
from strom.registry.registry import Registry
from strom.registry.rest.exchange import (
    CONTENT_TYPE,
    flag,
    in_format,
    json_response,
    page,
    prefix_of,
    to_json,
    whole_number,
)


class SchemaCalls:
    """The routes of schemas, independent of their subjects."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def routes(self) -> list[EncodedRoute]:
        return [
            EncodedRoute("/schemas", self.list_schemas),
            EncodedRoute("/schemas/types", self.list_types),
            EncodedRoute("/schemas/ids/{id}", self.get_schema),
            EncodedRoute("/schemas/ids/{id}/schema", self.get_text),
            EncodedRoute("/schemas/ids/{id}/subjects", self.subjects),
            EncodedRoute("/schemas/ids/{id}/versions", self.versions),
        ]

    def list_schemas(self, request: Request) -> Response:
        """List all versions of all subjects, or the latest of each."""
        prefix, deleted = prefix_of(request), flag(request, "deleted")
        with self._registry.reading() as subjects:
            found = [
                one
                for one in subjects.all_versions(deleted=deleted)
                if one.subject.startswith(prefix)
            ]
        if flag(request, "latestOnly"):
            found = list({one.subject: one for one in found}.values())
        return json_response(page(request, [to_json(one) for one in found]))

    def list_types(self, request: Request) -> Response:
        return json_response(
            [SchemaType.JSON.value, SchemaType.PROTOBUF.value, SchemaType.AVRO.value]
        )

    async def get_schema(self, request: Request) -> Response:
        """Get the schema of an id; without further parameters it comes from cached bytes.

        The parameter `subject`, which most clients send, changes nothing: an id is of one schema.
        """
        schema_id = _id_of(request)
        if request.query_params.get("format") or flag(request, "fetchMaxId"):
            return await run_in_threadpool(self._in_detail, request, schema_id)
        body = self._registry.rendered.get(schema_id)
        if body is None:
            body = await run_in_threadpool(self._render, schema_id)
        return Response(body, media_type=CONTENT_TYPE)

    def get_text(self, request: Request) -> Response:
        """Get the text of a schema without the JSON object around it."""
        content = in_format(self._registry, self._existing(_id_of(request)), request)
        return Response(content.text, media_type=CONTENT_TYPE)

    def subjects(self, request: Request) -> Response:
        """List the subjects that have this schema."""
        names = {one.subject for one in self._versions_with_id(request)}
        return json_response(page(request, sorted(names)))

    def versions(self, request: Request) -> Response:
        """List the versions that are this schema."""
        found = [
            {"subject": one.subject, "version": one.version}
            for one in self._versions_with_id(request)
        ]
        return json_response(page(request, found))

    def _versions_with_id(self, request: Request) -> list[SchemaVersion]:
        schema_id = _id_of(request)
        self._existing(schema_id)
        subject = request.query_params.get("subject")
        with self._registry.reading() as subjects:
            found = subjects.versions_with_id(schema_id, deleted=flag(request, "deleted"))
        return [one for one in found if subject in (None, "", one.subject)]

    def _in_detail(self, request: Request, schema_id: int) -> Response:
        content = in_format(self._registry, self._existing(schema_id), request)
        fields = content_to_json(content)
        if flag(request, "fetchMaxId"):
            with self._registry.reading() as subjects:
                fields["maxId"] = subjects.highest_id
        return json_response(fields)

    def _render(self, schema_id: int) -> bytes:
        self._existing(schema_id)
        with self._registry.reading() as subjects:
            content = subjects.content(schema_id)
            if content is None:
                schema_not_found(schema_id)
            body = self._registry.rendered[schema_id] = to_json_bytes(content_to_json(content))
        return body

    def _existing(self, schema_id: int) -> Content:
        content = self._registry.content(schema_id)
        if content is None:
            schema_not_found(schema_id)
        return content


def _id_of(request: Request) -> int:
    text = request.path_params["id"]
    number = whole_number(text.removeprefix("-"))
    if number is None:
        raise HttpError(404)  # there is no such path, as for Confluent's registry
    return -number if text.startswith("-") else number
