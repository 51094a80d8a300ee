"""From a frame to its handler and back to bytes."""

import asyncio
import logging
from collections.abc import Callable

from strom.model.errors import DirectoryOffline, ProtocolError
from strom.server.kafka import handlers
from strom.server.kafka.connection import Answer, Connection
from strom.server.kafka.context import Context, Services
from strom.server.kafka.handlers.k18_api_versions import unsupported_version
from strom.server.kafka.listener import Listener
from strom.server.kafka.pending_response import PendingResponse
from strom.server.kafka.registry import HANDLERS, Outcome
from strom.wire.kafka.codec import decode, encode_parts
from strom.wire.kafka.header import RequestHeader, decode_request_header, response_header
from strom.wire.kafka.messages.k00_produce import ProduceRequest
from strom.wire.kafka.messages.k08_offset_commit import OffsetCommitRequest
from strom.wire.kafka.messages.k18_api_versions import ApiVersionsRequest
from strom.wire.kafka.schema import Response

log = logging.getLogger(__name__)

MAX_SMALL_REQUEST = 4 * 1024 * 1024
"""Only requests that carry records need to be larger."""
PRODUCE = ProduceRequest.SCHEMA.api_key
EARLY = (PRODUCE, OffsetCommitRequest.SCHEMA.api_key)
API_VERSIONS = ApiVersionsRequest.SCHEMA.api_key

handlers.load()


class Dispatcher:
    """Answers frames, for all connections of a listener."""

    def __init__(self) -> None:
        self._services: Services | None = None
        self._listener: Listener | None = None

    def serve(self, services: Services, listener: Listener) -> None:
        """Start answering."""
        self._services = services
        self._listener = listener

    def may_begin_early(self, frame: memoryview) -> bool:
        """Produce requests and commits may: several of them then share one sync to disk."""
        return len(frame) > 1 and frame[0] == 0 and frame[1] in EARLY

    def __call__(
        self, connection: Connection, frame: memoryview
    ) -> Answer | PendingResponse[Answer] | None:
        """Begin to answer one request; ProtocolError closes the connection."""
        assert self._services is not None  # noqa: S101 - nothing is accepted before serve()
        header = decode_request_header(frame)
        found = HANDLERS.get(header.api_key)
        if found is None:
            raise ProtocolError(f"api key {header.api_key} is unknown here")
        first, last = found.versions
        if not first <= header.api_version <= last:
            if header.api_key == API_VERSIONS:
                return _encode(unsupported_version(), header, version=0)
            raise ProtocolError(
                f"{found.name} version {header.api_version} is not offered ({first} to {last} are)"
            )
        if len(frame) > MAX_SMALL_REQUEST and header.api_key != PRODUCE:
            raise ProtocolError(f"{found.name} of {len(frame)} bytes is too large")
        request = decode(found.request, header.api_version, frame, header.body_position)
        context = Context(
            self._services,
            header.api_version,
            header.client_id,
            connection.peer,
            connection.on_close,
        )
        try:
            outcome = found.handle(request, context)
        except ProtocolError:
            raise
        except DirectoryOffline as error:
            self._services.broker.storage_failed(error)
            raise ProtocolError("the data directory is offline") from error
        except Exception as error:
            log.exception("%s from %s failed", found.name, connection.peer)
            raise ProtocolError(f"{found.name} failed: {error}") from error
        return self._answer(outcome, header)

    def _answer(
        self, outcome: Outcome, header: RequestHeader
    ) -> Answer | PendingResponse[Answer] | None:
        if isinstance(outcome, Response):
            return _encode(outcome, header)
        if outcome is None:
            return None
        if isinstance(outcome, PendingResponse):
            result, response = outcome
            if result.done():
                return _encode(response(result.result()), header)
            return PendingResponse(result, lambda found: _encode(response(found), header))
        encode = _encoder(header)
        if isinstance(outcome, asyncio.Future):
            return PendingResponse(outcome, encode)
        assert self._listener is not None  # noqa: S101 - see serve()
        task = self._listener.run(outcome)
        task.add_done_callback(self._report_failure)
        return PendingResponse(task, encode)

    def _report_failure(self, task: "asyncio.Task[Response]") -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, DirectoryOffline):
            assert self._services is not None  # noqa: S101 - see serve()
            self._services.broker.storage_failed(error)
        else:
            log.error("A request failed", exc_info=error)


def _encoder(header: RequestHeader) -> Callable[[Response], Answer]:
    return lambda response: _encode(response, header)


def _encode(response: Response, header: RequestHeader, version: int | None = None) -> Answer:
    version = header.api_version if version is None else version
    try:
        parts = encode_parts(response, version)
    except ProtocolError:
        log.exception("An answer could not be written")
        raise
    head = response_header(header.api_key, version, header.correlation_id)
    size = len(head) + sum(map(len, parts))
    return [size.to_bytes(4, "big") + head, *parts]
