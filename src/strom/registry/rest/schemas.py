"""/schemas: by id, and all together."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from strom.http.routing import EncodedRoute
from strom.registry.formats.schema import SchemaType
from strom.registry.records import Content, SchemaVersion
from strom.registry.refusals import schema_not_found
from strom.registry.registering import HIGHEST_NUMBER
from strom.registry.registry import Registry
from strom.registry.rest.exchange import (
    CONTENT_TYPE,
    answer,
    flag,
    page,
    prefix_of,
    rendered,
    shown,
    shown_content,
)
from strom.registry.rest.formatting import content_in_format


class SchemaCalls:
    """The calls about schemas whatever their subject."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def routes(self) -> list[EncodedRoute]:
        """Where they are found."""
        return [
            EncodedRoute("/schemas", self.list_schemas),
            EncodedRoute("/schemas/types", self.list_types),
            EncodedRoute("/schemas/ids/{id}", self.get_schema),
            EncodedRoute("/schemas/ids/{id}/schema", self.get_text),
            EncodedRoute("/schemas/ids/{id}/subjects", self.subjects),
            EncodedRoute("/schemas/ids/{id}/versions", self.versions),
        ]

    def list_schemas(self, request: Request) -> Response:
        """All versions of all subjects, or the latest of each."""
        prefix, deleted = prefix_of(request), flag(request, "deleted")
        with self._registry.reading() as subjects:
            found = [
                one
                for one in subjects.all_versions(deleted=deleted)
                if one.subject.startswith(prefix)
            ]
        if flag(request, "latestOnly"):
            found = list({one.subject: one for one in found}.values())
        return answer(page(request, [shown(one) for one in found]))

    def list_types(self, request: Request) -> Response:
        """The schema languages."""
        return answer([SchemaType.JSON.value, SchemaType.PROTOBUF.value, SchemaType.AVRO.value])

    async def get_schema(self, request: Request) -> Response:
        """The schema of an id. Asked plainly, it is answered from bytes that lie ready.

        The subject, which most clients name, makes no difference: an id means one schema.
        """
        schema_id = _id_of(request)
        if request.query_params.get("format") or flag(request, "fetchMaxId"):
            return await run_in_threadpool(self._in_detail, request, schema_id)
        ready = self._registry.rendered.get(schema_id)
        if ready is None:
            ready = await run_in_threadpool(self._render, schema_id)
        return Response(ready, media_type=CONTENT_TYPE)

    def get_text(self, request: Request) -> Response:
        """The schema of an id, alone."""
        content = self._existing(_id_of(request))
        form = request.query_params.get("format", "")
        text = content_in_format(self._registry, content, form).text
        return Response(text, media_type=CONTENT_TYPE)

    def subjects(self, request: Request) -> Response:
        """The subjects that have this schema."""
        return answer(page(request, sorted({one.subject for one in self._places(request)})))

    def versions(self, request: Request) -> Response:
        """The versions that are this schema."""
        found = [{"subject": one.subject, "version": one.version} for one in self._places(request)]
        return answer(page(request, found))

    def _places(self, request: Request) -> list[SchemaVersion]:
        schema_id = _id_of(request)
        self._existing(schema_id)
        subject = request.query_params.get("subject")
        with self._registry.reading() as subjects:
            found = subjects.versions_with_id(schema_id, deleted=flag(request, "deleted"))
        return [one for one in found if subject in (None, "", one.subject)]

    def _in_detail(self, request: Request, schema_id: int) -> Response:
        content = self._existing(schema_id)
        form = request.query_params.get("format", "")
        told = shown_content(content_in_format(self._registry, content, form))
        if flag(request, "fetchMaxId"):
            with self._registry.reading() as subjects:
                told["maxId"] = subjects.highest_id
        return answer(told)

    def _render(self, schema_id: int) -> bytes:
        self._existing(schema_id)
        with self._registry.reading() as subjects:
            content = subjects.content(schema_id)
            if content is None:
                schema_not_found(schema_id)
            ready = self._registry.rendered[schema_id] = rendered(shown_content(content))
        return ready

    def _existing(self, schema_id: int) -> Content:
        content = self._registry.content(schema_id)
        if content is None:
            schema_not_found(schema_id)
        return content


def _id_of(request: Request) -> int:
    text = request.path_params["id"]
    if not (text.isascii() and text.isdigit()) or int(text) > HIGHEST_NUMBER:
        schema_not_found()
    return int(text)
