"""/subjects: list, register, look up and delete schemas by subject."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from strom.http.routing import EncodedRoute
from strom.registry.deleting import delete_subject, delete_version, existing_version
from strom.registry.records import SchemaVersion
from strom.registry.refusals import schema_not_found, subject_not_found
from strom.registry.registering import lookup
from strom.registry.registry import Registry
from strom.registry.rest.exchange import (
    CONTENT_TYPE,
    body_of,
    flag,
    in_format,
    json_response,
    page,
    prefix_of,
    run_with_schema,
    schema_request,
    subject_of,
    to_json,
    version_of,
)
from strom.registry.subjects import Subjects


class SubjectCalls:
    """The routes of subjects and their versions."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def routes(self) -> list[EncodedRoute]:
        versions = "/subjects/{subject}/versions"
        one = versions + "/{version}"
        return [
            EncodedRoute("/subjects", self.list_subjects),
            EncodedRoute("/subjects/{subject}", self.look_up, methods=["POST"]),
            EncodedRoute("/subjects/{subject}", self.delete_subject, methods=["DELETE"]),
            EncodedRoute(versions, self.list_versions, methods=["GET"]),
            EncodedRoute(versions, self.register, methods=["POST"]),
            EncodedRoute(one, self.get_version, methods=["GET"]),
            EncodedRoute(one, self.delete_version, methods=["DELETE"]),
            EncodedRoute(one + "/schema", self.get_text),
            EncodedRoute(one + "/referencedby", self.referenced_by),
        ]

    def list_subjects(self, request: Request) -> Response:
        """List subjects; `deleted` includes deleted ones, `deletedOnly` lists only those."""
        prefix = prefix_of(request)
        with self._registry.reading() as subjects:
            if flag(request, "deletedOnly"):
                existing = set(subjects.subjects())
                names = [name for name in subjects.subjects(deleted=True) if name not in existing]
            else:
                names = subjects.subjects(deleted=flag(request, "deleted"))
        return json_response(page(request, [name for name in names if name.startswith(prefix)]))

    def list_versions(self, request: Request) -> Response:
        """List the numbers of a subject's versions."""
        subject = subject_of(request)
        deleted, only = flag(request, "deleted"), flag(request, "deletedOnly")
        with self._registry.reading() as subjects:
            versions = subjects.versions(subject, deleted=deleted or only)
        if not versions:
            subject_not_found(subject)
        return json_response(
            page(request, [one.version for one in versions if one.deleted or not only])
        )

    def get_version(self, request: Request) -> Response:
        """Get a version with its schema."""
        return json_response(to_json(self._formatted(request, deleted=flag(request, "deleted"))))

    def get_text(self, request: Request) -> Response:
        """Get the text of a version's schema without the JSON object around it."""
        found = self._formatted(request, deleted=flag(request, "deleted"))
        return Response(found.content.text, media_type=CONTENT_TYPE)

    def referenced_by(self, request: Request) -> Response:
        """List the ids of the schemas that refer to a version."""
        found = self._version(request, deleted=True)
        with self._registry.reading() as subjects:
            referrers = subjects.referrers(
                (found.subject, found.version), deleted=flag(request, "deleted")
            )
        return json_response(page(request, sorted({one.id for one in referrers})))

    async def register(self, request: Request) -> Response:
        """Register a schema as a version of the subject."""
        wanted = schema_request(request, await body_of(request))
        entry = await run_with_schema(self._registry.register, wanted)
        # Without the schema: clients cache it in the form that they sent.
        return json_response({"id": entry.id, "version": entry.version})

    async def look_up(self, request: Request) -> Response:
        """Find the version of the subject that has this schema."""
        wanted = schema_request(request, await body_of(request))
        deleted = flag(request, "deleted")

        def found(subjects: Subjects) -> SchemaVersion:
            entry = lookup(subjects, wanted, deleted=deleted)
            if entry is None:
                if not subjects.versions(wanted.subject, deleted=deleted):
                    subject_not_found(wanted.subject)
                schema_not_found()
            return entry

        return json_response(to_json(await run_with_schema(self._registry.read, found)))

    def delete_subject(self, request: Request) -> Response:
        subject, permanent = subject_of(request), flag(request, "permanent")
        return json_response(
            self._registry.change(
                lambda subjects: delete_subject(subjects, subject, permanent=permanent)
            )
        )

    def delete_version(self, request: Request) -> Response:
        subject, version = subject_of(request), version_of(request)
        permanent = flag(request, "permanent")
        return json_response(
            self._registry.change(
                lambda subjects: delete_version(subjects, subject, version, permanent=permanent)
            )
        )

    def _formatted(self, request: Request, *, deleted: bool) -> SchemaVersion:
        found = self._version(request, deleted=deleted)
        return replace(found, content=in_format(self._registry, found.content, request))

    def _version(self, request: Request, *, deleted: bool) -> SchemaVersion:
        subject, version = subject_of(request), version_of(request)
        with self._registry.reading() as subjects:
            return existing_version(subjects, subject, version, deleted=deleted)
