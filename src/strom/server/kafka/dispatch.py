"""Decodes a request, calls its handler, and encodes the response."""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Generator, Iterator
from time import perf_counter
from types import GeneratorType
from typing import Any, cast

from strom.metrics.instruments import SECONDS
from strom.metrics.requests import ErrorReading, RequestReading, RequestStats
from strom.model.errors import DirectoryOffline, ErrorCode, ProtocolError
from strom.model.settings import KIB
from strom.model.steps import Steps
from strom.server.kafka import handlers
from strom.server.kafka.abandoned_requests import AbandonedRequests
from strom.server.kafka.api import (
    HANDLERS,
    Context,
    Handler,
    Outcome,
    PendingResponse,
    ReadOnly,
    Services,
)
from strom.server.kafka.connection import KafkaConnection, Parts
from strom.server.kafka.handlers.k18_api_versions import unsupported_version
from strom.server.kafka.listener import KafkaListener
from strom.server.kafka.long_work import StepsDone, run_slice
from strom.server.kafka.response_errors import error_counter, error_counter_in_steps
from strom.server.kafka.response_memory import EncodedResponse, ResponseExceedsMemory
from strom.wire.kafka.batch import Buffer
from strom.wire.kafka.codec import decode, decode_steps, encode_parts, encode_steps
from strom.wire.kafka.header import RequestHeader, decode_request_header, response_header
from strom.wire.kafka.messages.k00_produce import ProduceRequest
from strom.wire.kafka.messages.k01_fetch import FetchRequest
from strom.wire.kafka.messages.k08_offset_commit import OffsetCommitRequest
from strom.wire.kafka.messages.k18_api_versions import ApiVersionsRequest
from strom.wire.kafka.messages.k78_share_fetch import ShareFetchRequest
from strom.wire.kafka.schema import Request, Response

log = logging.getLogger(__name__)

MAX_SMALL_REQUEST = 4 * 1024 * 1024
"""Only requests that carry records need to be larger."""
LARGE_REQUEST = 32 * KIB
"""Larger requests are decoded in steps."""
SMALL_REQUEST = KIB
"""Smaller ones are no burden without their clients; the end of a transaction may even wait for days."""
MAX_LONG = 8
"""How many requests that take long to decode are handled at a time: each may become tens of megabytes."""
PRODUCE = ProduceRequest.SCHEMA.api_key
EARLY = (PRODUCE, OffsetCommitRequest.SCHEMA.api_key)
FETCHES = (FetchRequest.SCHEMA.api_key, ShareFetchRequest.SCHEMA.api_key)
_ERROR_NAMES = {code.value: code.name for code in ErrorCode}
API_VERSIONS = ApiVersionsRequest.SCHEMA.api_key

handlers.load()


class Dispatcher:
    """Dispatches the requests of all connections of a listener."""

    def __init__(self) -> None:
        self._services: Services | None = None
        self._listener: KafkaListener | None = None
        self._served = {key: (one, RequestStats()) for key, one in HANDLERS.items()}
        self._long = asyncio.Semaphore(MAX_LONG)
        self._abandoned = AbandonedRequests()
        self.invalid_requests = 0
        """The number of requests that closed their connection."""

    def serve(self, services: Services, listener: KafkaListener) -> None:
        self._services = services
        self._listener = listener
        listener.end_waits = self._end_waits

    def _end_waits(self) -> None:
        assert self._services is not None  # noqa: S101 - see serve()
        for wait in tuple(self._services.waits):
            wait.end()

    def may_begin_early(self, frame: memoryview) -> bool:
        """Whether it is a produce request or a commit: several of them share one sync to disk."""
        return len(frame) > 1 and frame[0] == 0 and frame[1] in EARLY

    def __call__(
        self, connection: KafkaConnection, frame: memoryview
    ) -> Parts | PendingResponse[Parts] | None:
        """Begin one request; ProtocolError closes the connection."""
        began = perf_counter()
        assert self._services is not None  # noqa: S101 - nothing is accepted before serve()
        try:
            header = decode_request_header(frame)
            served = self._served.get(header.api_key)
            if served is None:
                raise ProtocolError(f"unsupported api key {header.api_key}")
            found, stats = served
            stats.bytes_in += len(frame)
            first, last = found.versions
            if not first <= header.api_version <= last:
                if header.api_key == API_VERSIONS:
                    header = header._replace(api_version=0)
                    return _encode(unsupported_version(), header, stats, began)
                raise ProtocolError(
                    f"{found.name} version {header.api_version} is unsupported: use {first} to {last}"
                )
            if len(frame) > MAX_SMALL_REQUEST and header.api_key != PRODUCE:
                raise ProtocolError(f"{found.name} of {len(frame)} bytes is too large")
            context = Context(
                self._services,
                header.api_version,
                header.client_id,
                connection.peer,
                connection.on_close,
            )
            if len(frame) > LARGE_REQUEST:
                decoding = decode_steps(
                    found.request, header.api_version, frame[:], header.body_position
                )
                decoded = run_slice(decoding)
                if not isinstance(decoded, StepsDone):
                    # A produce request or commit needs its bytes to the end; nothing may overtake it.
                    early = header.api_key in EARLY
                    on_handled = None if early else connection.release_frame
                    later = self._decode_and_handle(decoding, found, context, on_handled)
                    return self._run(
                        later, header, stats, began, connection, is_large=True, holds_frame=True
                    )
                request = decoded.result
            else:
                request = decode(found.request, header.api_version, frame, header.body_position)
            try:
                is_large = len(frame) > SMALL_REQUEST
                outcome = found.handle(request, context)
                return self._respond(outcome, header, stats, began, connection, is_large=is_large)
            except ProtocolError:
                raise
            except DirectoryOffline as error:
                self._services.broker.storage_failed(error)
                raise ProtocolError("the data directory is offline") from error
            except Exception as error:
                log.exception("%s from %s failed", found.name, connection.peer)
                raise ProtocolError(f"{found.name} failed: {error}") from error
        except ProtocolError:
            self.invalid_requests += 1
            raise

    def _respond(
        self,
        outcome: Outcome,
        header: RequestHeader,
        stats: RequestStats,
        began: float,
        connection: KafkaConnection,
        *,
        is_large: bool,
    ) -> Parts | PendingResponse[Parts] | None:
        if isinstance(outcome, Response):
            return _encode(outcome, header, stats, began)
        if outcome is None:
            stats.seconds.observe(perf_counter() - began)
            return None
        if (
            type(outcome) is GeneratorType
        ):  # the check by isinstance is measurable in small requests
            steps = cast("Steps[Response]", outcome)
            paused = run_slice(steps)
            if isinstance(paused, StepsDone):
                return _encode(paused.result, header, stats, began)
            assert self._services is not None  # noqa: S101 - see serve()
            rest = self._services.long_work.finish(steps, paused)
            return self._run(rest, header, stats, began, connection, only_reads=True)
        if isinstance(outcome, PendingResponse):
            result, response = outcome.result, outcome.convert
            if result.done():
                return _encode(response(result.result()), header, stats, began)
            return PendingResponse(
                result, lambda found: _encode(response(found), header, stats, began)
            )

        if isinstance(outcome, asyncio.Future):
            return PendingResponse(
                outcome, lambda response: _encode(response, header, stats, began)
            )
        if isinstance(outcome, ReadOnly):
            return self._run(outcome.work, header, stats, began, connection, only_reads=True)
        assert isinstance(outcome, Coroutine)  # noqa: S101 - nothing else is left
        # A produce request or commit that runs as a task has not appended all its records yet.
        holds_frame = header.api_key in EARLY
        return self._run(
            outcome, header, stats, began, connection, is_large=is_large, holds_frame=holds_frame
        )

    def _run(
        self,
        outcome: Coroutine[Any, Any, Response | None],
        header: RequestHeader,
        stats: RequestStats,
        began: float,
        connection: KafkaConnection,
        *,
        only_reads: bool = False,
        is_large: bool = False,
        holds_frame: bool = False,
    ) -> PendingResponse[Parts]:
        """Run a request as a task, and encode its response in slices."""
        assert self._services is not None  # noqa: S101 - see serve()
        assert self._listener is not None  # noqa: S101 - see serve()
        long_work, memory = self._services.long_work, self._services.memory

        host, on_close = connection.reservation.host, connection.on_close

        async def work() -> Parts:
            if is_large:
                try:
                    await self._abandoned.wait(host, on_close)
                except asyncio.CancelledError:
                    outcome.close()  # it has not begun
                    raise
            response = await outcome
            if response is None:
                stats.seconds.observe(perf_counter() - began)
                return []
            encoded = EncodedResponse(memory, host)
            try:
                parts = await long_work.run(
                    encode_steps(response, header.api_version, encoded.on_growth)
                )
            except ResponseExceedsMemory:
                raise
            except ProtocolError:
                log.exception("A response could not be encoded")
                raise
            count_errors = error_counter_in_steps(type(response))
            await long_work.run(count_errors(response, stats.errors))
            return _finish(parts, header, stats, began)

        task = self._listener.run(work())
        task.add_done_callback(self._report_failure)
        if is_large:
            self._abandoned.watch(task, host, on_close)
        return PendingResponse(task, _as_is, only_reads, holds_frame)

    async def _decode_and_handle(
        self,
        decoding: Steps[Request],
        found: Handler,
        context: Context,
        on_handled: Callable[[], None] | None,
    ) -> Response | None:
        """Handle a request that takes long to decode; `on_handled` when its bytes are not needed.

        Few are in memory at a time. It is cancelled if its client disconnects, unless it may be amid a
        change.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - called by `_run`
        context.on_close.add(decoding, task.cancel)
        del task  # a cancelled task keeps its traceback, which would refer to it
        try:
            async with self._long:
                request = await context.long_work.finish(decoding, None)
                outcome = found.handle(request, context)
                del request
                if on_handled is not None:
                    context.services.loop.call_soon(on_handled)  # after the first slice of the work
                if outcome is None or isinstance(outcome, Response):
                    return outcome
                if isinstance(outcome, Generator):
                    return await context.long_work.run(outcome)
                if isinstance(outcome, Coroutine):
                    context.on_close.remove(decoding)
                    if found.request.SCHEMA.api_key not in FETCHES:
                        return await outcome
            # What waits for records, other members of a group or the disk leaves the place to others.
            if isinstance(outcome, PendingResponse):
                response: Response | None = outcome.convert(await outcome.result)
            elif isinstance(outcome, ReadOnly):
                response = await outcome.work
            else:
                response = await outcome
            return response
        finally:
            context.on_close.remove(decoding)

    def requests(self) -> Iterator[RequestReading]:
        """For metrics: the requests that were responded to, by api key."""
        for handler, stats in self._served.values():
            if stats.seconds.count:
                yield RequestReading(
                    handler.name, stats.seconds.read(), stats.bytes_in, stats.bytes_out
                )

    def errors(self) -> Iterator[ErrorReading]:
        """For metrics: the error codes in responses, by api key."""
        for handler, stats in self._served.values():
            counted: dict[str, int] = {}
            for code, count in tuple(stats.errors.items()):
                name = _ERROR_NAMES[int(code)]  # a code may be counted as a plain int, too
                counted[name] = counted.get(name, 0) + count
            for name, count in counted.items():
                yield ErrorReading(handler.name, name, count)

    def _report_failure(self, task: "asyncio.Task[Parts]") -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, DirectoryOffline):
            assert self._services is not None  # noqa: S101 - see serve()
            self._services.broker.storage_failed(error)
        elif isinstance(error, ProtocolError):
            self.invalid_requests += 1
        else:
            log.error("A request failed", exc_info=error)


def _as_is(parts: Parts) -> Parts:
    return parts


def _encode(response: Response, header: RequestHeader, stats: RequestStats, began: float) -> Parts:
    """Encode a response, and count its request, which ends here."""
    try:
        parts = encode_parts(response, header.api_version)
    except ProtocolError:
        log.exception("A response could not be encoded")
        raise
    count_errors = stats.count_errors
    if count_errors is None:
        count_errors = stats.count_errors = error_counter(type(response))
    count_errors(response, stats.errors)
    return _finish(parts, header, stats, began)


def _finish(parts: list[Buffer], header: RequestHeader, stats: RequestStats, began: float) -> Parts:
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    size = len(head) + sum(map(len, parts))
    stats.bytes_out += size
    # `observe` inlined: the call is measurable in small requests.
    seconds, histogram = perf_counter() - began, stats.seconds
    histogram.counts[bisect_left(SECONDS, seconds)] += 1
    histogram.sum += seconds
    return [size.to_bytes(4, "big") + head, *parts]
