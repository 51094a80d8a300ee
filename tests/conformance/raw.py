"""A client that sends any request in any version, and hides nothing of the answer.

It encodes and decodes with kio, a codec written by others from Kafka's own definitions. One set of
fields serves all versions of a request: fields that a version does not have are left out.
"""

import dataclasses
import datetime as dt
import functools
import io
import itertools
import socket
import struct
import typing
from types import TracebackType
from typing import Any, Self

from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

API_KEYS = {name: key for key, name in api_key_map.items()}


class ConnectionClosed(Exception):
    """The broker hung up."""


class RawClient:
    """One connection. Use it in a `with` statement."""

    def __init__(self, bootstrap_servers: str, timeout_s: float = 30) -> None:
        host, port = bootstrap_servers.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def call(self, api: str, version: int, **fields: Any) -> Any:
        """Send a request and return its answer, as kio's dataclasses."""
        correlation_id = self.send(api, version, **fields)
        return self.receive(api, version, correlation_id)

    def send(self, api: str, version: int, **fields: Any) -> int:
        """Send a request without waiting; returns its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_frame(encode_request(api, version, correlation_id, **fields))
        return correlation_id

    def receive(self, api: str, version: int, correlation_id: int) -> Any:
        """Read the next answer, which must be the one to `correlation_id`."""
        frame = self.receive_frame()
        schema = load_response_schema(API_KEYS[api], version)
        header, position = entity_reader(schema.__header_schema__)(frame, 0)
        assert header.correlation_id == correlation_id
        answer, size = entity_reader(schema)(frame, position)
        assert position + size == len(frame), "bytes after the answer"
        return answer

    def send_frame(self, frame: bytes) -> None:
        """Send bytes as one length-prefixed frame."""
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        """Read one frame, or raise ConnectionClosed."""
        (length,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(length)

    def is_closed_by_the_broker(self, within_s: float = 10) -> bool:
        """Whether the broker hangs up, without sending anything, before the time is over."""
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def _receive_exactly(self, length: int) -> bytes:
        received = bytearray()
        while len(received) < length:
            try:
                chunk = self.socket.recv(length - len(received))
            except ConnectionError as error:
                raise ConnectionClosed from error
            if not chunk:
                raise ConnectionClosed
            received += chunk
        return bytes(received)


def known_versions(api: str) -> list[int]:
    """The versions of a request that exist in Kafka 4.3, which is what kio is generated from."""
    return sorted(schema_name_map[api])


def encode_request(api: str, version: int, correlation_id: int, **fields: Any) -> bytes:
    """The bytes of a request with its header, without the length in front."""
    schema: Any = load_request_schema(API_KEYS[api], version)
    unknown = _names_in(fields) - _field_names_of_all_versions(api)
    assert not unknown, f"no version of {api} has {sorted(unknown)}"
    header = schema.__header_schema__(
        request_api_key=API_KEYS[api],
        request_api_version=version,
        correlation_id=correlation_id,
        client_id="conformance",
    )
    buffer = io.BytesIO()
    entity_writer(schema.__header_schema__)(buffer, header)
    entity_writer(schema)(buffer, _build(schema, fields))
    return buffer.getvalue()


def _build(schema: Any, values: dict[str, Any]) -> Any:
    """An instance of a kio class from plain values; what this version lacks is left out."""
    hints = typing.get_type_hints(schema)
    arguments = {}
    for field in dataclasses.fields(schema):
        if field.name not in values:
            continue
        value = values[field.name]
        inner = _nested_schema(hints[field.name])
        if isinstance(value, list | tuple):
            value = tuple(_build(inner, item) if inner else item for item in value)
        elif isinstance(value, dict):
            value = _build(inner, value)
        elif "timedelta" in field.metadata.get("kafka_type", ""):
            value = dt.timedelta(milliseconds=value)
        arguments[field.name] = value
    return schema(**arguments)


def _nested_schema(hint: Any) -> Any:
    """The kio class inside `tuple[X, ...] | None` and the like, if there is one."""
    if dataclasses.is_dataclass(hint):
        return hint
    inner = (_nested_schema(argument) for argument in typing.get_args(hint))
    return next((schema for schema in inner if schema), None)


def _names_in(values: Any) -> set[str]:
    if isinstance(values, dict):
        return set(values).union(*map(_names_in, values.values()))
    if isinstance(values, list | tuple):
        return set().union(*map(_names_in, values))
    return set()


@functools.cache
def _field_names_of_all_versions(api: str) -> frozenset[str]:
    names: set[str] = set()
    schemas = [
        load_entity_schema(api, version, EntityType.request) for version in known_versions(api)
    ]
    pending: list[Any] = list(schemas)
    while pending:
        schema = pending.pop()
        hints = typing.get_type_hints(schema)
        for field in dataclasses.fields(schema):
            names.add(field.name)
            if inner := _nested_schema(hints[field.name]):
                pending.append(inner)
    return frozenset(names)
