"""Schemas of Avro streams from a registry: reader schemas of streams, writer schemas of records."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.view import View
from strom.pipelines.project import Project

if TYPE_CHECKING:
    from strom.registry.client import RegisteredSchema

_NOT_FOUND = 404
_known: dict[tuple[str, int], str] = {}
"""Schemas by registry and id; a schema id is immutable."""


def with_schemas(project: Project) -> Project:
    """The project with the schemas of its streams, fetched before anything is computed."""
    streams: dict[int, Stream] = {}
    views: dict[int, View] = {}

    def resolve(stream: Stream) -> Stream:
        if id(stream) not in streams:
            streams[id(stream)] = _resolve_stream(stream, project.settings.registry)
        return streams[id(stream)]

    def rebase(view: View) -> View:
        if id(view) not in views:
            reads = view.reads
            views[id(view)] = replace(
                view, reads=resolve(reads) if isinstance(reads, Stream) else rebase(reads)
            )
        return views[id(view)]

    if all(view.stream.format != "avro" for view in project.views.values()):
        return project
    return replace(
        project,
        streams={name: resolve(stream) for name, stream in project.streams.items()},
        views={name: rebase(view) for name, view in project.views.items()},
    )


def writer_schemas(registry: str, ids: Iterable[int]) -> dict[int, str | None]:
    """The Avro schemas of these ids; None if the registry has no Avro schema of an id."""
    return {number: _writer_schema(registry, number) for number in ids}


def _writer_schema(registry: str, number: int) -> str | None:
    from strom.registry.client import RegistryClient, RegistryError

    if (known := _known.get((registry, number))) is not None:
        return known
    try:
        with RegistryClient(registry) as client:
            found = client.schema(number)
    except RegistryError as error:
        if error.status == _NOT_FOUND:
            return None  # not cached: it may be registered later
        raise
    if found.kind != "AVRO":
        return None
    return _known.setdefault((registry, number), _text_of(found))


def _resolve_stream(stream: Stream, address: str | None) -> Stream:
    from strom.registry.client import RegistryClient

    registry = stream.registry or address
    if stream.resolved:
        return stream
    if registry is None:
        raise DefinitionError(
            stream.place,
            f"Stream {stream.topic!r} has its schema in a registry. Set its address in strom.toml: "
            'registry = "http://127.0.0.1:8081"',
        )
    try:
        with RegistryClient(registry) as client:
            found = client.version(stream.value_subject, stream.version or "latest")
        if found.kind != "AVRO":
            raise UserError(f"{stream.value_subject} is {found.kind}, not Avro.")
        return replace(stream, schema=_text_of(found), version=found.version, registry=registry)
    except DefinitionError:
        raise
    except UserError as error:
        raise DefinitionError(stream.place, str(error)) from None


def _text_of(schema: "RegisteredSchema") -> str:
    if schema.references:
        raise UserError(
            f"Schema {schema.id} references {schema.references[0].subject}: Spark does not support "
            "schemas with references."
        )
    return schema.text
