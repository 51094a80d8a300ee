"""/compatibility: whether a schema is compatible with the versions of a subject."""

from starlette.requests import Request
from starlette.responses import Response

from strom.http.routing import EncodedRoute
from strom.registry.content_parsing import parse_new
from strom.registry.records import SchemaVersion
from strom.registry.refusals import INVALID_SCHEMA, RestError, version_not_found
from strom.registry.registering import SchemaRequest, compatibility_problems
from strom.registry.registry import Registry
from strom.registry.rest.exchange import (
    body_of,
    flag,
    json_response,
    run_with_schema,
    schema_request,
    version_of,
)
from strom.registry.subjects import LATEST, Subjects


class CompatibilityCalls:
    """The routes that check a schema without registering it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def routes(self) -> list[EncodedRoute]:
        path = "/compatibility/subjects/{subject}/versions"
        return [
            EncodedRoute(path, self.check, methods=["POST"]),
            EncodedRoute(path + "/{version}", self.check, methods=["POST"]),
        ]

    async def check(self, request: Request) -> Response:
        """Check a schema against one version, or against those that the subject's level requires."""
        version = version_of(request) if "version" in request.path_params else None
        verbose = flag(request, "verbose")
        wanted = schema_request(request, await body_of(request))
        reasons = await run_with_schema(self._reasons, wanted, version, verbose)
        result = {"is_compatible": not reasons}
        return json_response(result | ({"messages": reasons} if verbose else {}))

    def _reasons(self, wanted: SchemaRequest, version: int | None, verbose: bool) -> list[str]:
        def reasons(subjects: Subjects) -> list[str]:
            earlier = _earlier(subjects, wanted.subject, version)
            try:
                parsed = parse_new(subjects, wanted.content)
            except RestError as error:
                if verbose and error.code == INVALID_SCHEMA:
                    return [str(error)]
                raise
            return compatibility_problems(subjects, wanted.subject, parsed, earlier)

        return self._registry.read(reasons)


def _earlier(subjects: Subjects, subject: str, version: int | None) -> list[SchemaVersion]:
    if version is None:
        return subjects.versions(subject)
    if version == LATEST:
        return subjects.versions(subject)[-1:]
    found = subjects.version(subject, version)
    if found is None:
        version_not_found(version)
    return [found]
