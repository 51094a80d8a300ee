"""HttpSink: sends records to an HTTP interface, at least once.

Every request has an idempotency key of topic, partition and offset, by which a server can recognise a
repeated one.
"""

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from strom.connect.api import (
    ConnectError,
    PoisonRecord,
    RetriableError,
    SinkConnector,
    SinkContext,
    SinkRecord,
    TopicPartition,
)
from strom.connect.connectors.plain_json import to_json
from strom.connect.connectors.record_template import GAP, RecordTemplate
from strom.connect.connectors.sent_since_flush import UnbufferedSinkTask
from strom.connect.connectors.web.http_client import (
    HttpClient,
    HttpClientSettings,
    HttpResponse,
    address_problem,
    redirect_location,
    start_of,
)
from strom.connect.setting_forms import choice, integer, string

_AUTHENTICATION_FAILED = {401, 403, 407}
"""These fail the task: the records are not the cause, so they are no poison records."""
_ALREADY_DELETED = {404, 410}


@dataclass(frozen=True, kw_only=True)
class HttpSinkSettings(HttpClientSettings):
    url: str = string(
        "url",
        "The address of requests. {topic}, {partition}, {offset}, {key} and {FIELD} are filled in.",
        required=True,
    )
    method: str = choice("method", "The method of requests.", ("POST", "PUT", "PATCH"))
    format: str = choice(
        "format",
        "The body: JSON (an array if batch.size is over 1), lines of JSON, or plain text.",
        ("json", "lines", "text"),
    )
    batch_size: int = integer("batch.size", "The most records in one request.", 1)
    null_values: str = choice(
        "null.values",
        "What to do with a record without a value: skip it, send DELETE to its address, or fail.",
        ("ignore", "delete", "fail"),
    )
    idempotency_header: str = string(
        "idempotency.header",
        "The header with a request's key, by which the server can recognise a repeated one.",
        "Idempotency-Key",
    )
    max_connections: int = integer(
        "max.connections",
        "The most requests in flight; those of one partition stay in order.",
        1,
        maximum=100,
    )

    def validate(self) -> Mapping[str, str]:
        problems = dict(super().validate())
        problem = address_problem(self.url) or RecordTemplate(self.url).problem()
        if problem is not None:
            problems["url"] = problem
        return problems


_CONTENT_TYPES = {
    "json": "application/json",
    "lines": "application/x-ndjson",
    "text": "text/plain; charset=utf-8",
}


class _Item(NamedTuple):
    number: int
    """The record's index among those of `put`, for PoisonRecord."""
    record: SinkRecord
    url: str


class HttpSinkTask(UnbufferedSinkTask[HttpSinkSettings]):
    """Sends records, those of one partition in order."""

    def __init__(self, settings: HttpSinkSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._template = RecordTemplate(settings.url, lambda value: quote(value, safe=""))
        self._gaps = _segments_with_gaps(settings.url)
        count = settings.max_connections
        self._client = HttpClient(settings, context.stopping, connections=count, redirects=False)
        self._threads = ThreadPoolExecutor(count, "http-sink") if count > 1 else None

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Send all records but those that were sent since the last flush."""
        items: dict[TopicPartition, list[_Item]] = {}
        for index, record in enumerate(records):
            ignored = record.value is None and self.settings.null_values == "ignore"
            if not ignored and record not in self._sent:
                item = _Item(index, record, self._address(index, record))
                items.setdefault(record.origin, []).append(item)
        failures = self._send_partitions(items)
        if failures:
            raise min(failures, key=_severity)

    def stop(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        self._client.close()

    def _address(self, index: int, record: SinkRecord) -> str:
        try:
            if record.value is None and self.settings.null_values == "fail":
                raise ValueError("The record has no value, which null.values=fail does not allow")
            address = self._template.fill(record)
            self._check_segments(address)
            return address
        except ValueError as error:
            raise PoisonRecord(str(error), index) from None

    def _check_segments(self, address: str) -> None:
        """ValueError if the record makes a segment of the path `.` or `..`, which change the path.

        Encoding does not help: `%2E%2E` means the same to clients and servers (RFC 3986, section
        6.2.2.2).
        """
        if not self._gaps:
            return
        # Values are quoted, so none has a slash: the segments are those of the template.
        segments = urlsplit(address).path.split("/")
        for number, gap in self._gaps.items():
            if unquote(segments[number]) in {".", ".."}:
                raise ValueError(
                    f"The record makes {gap} in the path of url {segments[number]!r}, which would "
                    "address another resource"
                )

    def _send_partitions(self, items: Mapping[TopicPartition, list[_Item]]) -> list[ConnectError]:
        """Send all, partitions in parallel up to max.connections; returns the failures."""
        run = map if self._threads is None else self._threads.map
        results = list(run(self._send_in_order, items.values()))
        return [failure for failure in results if failure is not None]

    def _send_in_order(self, items: list[_Item]) -> ConnectError | None:
        """Send one partition's records; returns the failure that ended it."""
        try:
            for url, same_url in itertools.groupby(items, lambda item: item.url):
                waiting = list(same_url)
                while waiting:
                    batch = _first_batch(waiting, self.settings.batch_size)
                    del waiting[: len(batch)]
                    self._send(url, batch)
        except ConnectError as error:
            return error
        return None

    def _send(self, url: str, batch: list[_Item]) -> None:
        """Send a batch; a refused one is sent again record by record, to find the poison record."""
        response = self._request(url, batch)
        # Deleting is idempotent: a DELETE is repeated when its response was lost.
        is_deleted = batch[0].record.value is None and response.status in _ALREADY_DELETED
        if response.status >= 300 and not is_deleted:
            problem = f"{url} responded with {response.status}: {start_of(response.body)}"
            if (location := redirect_location(response)) is not None:
                problem = (
                    f"{url} responded with {response.status} and redirects to {location}. A sink "
                    "follows no redirects: set url to the address that accepts the records."
                )
            if response.status < 400 or response.status in _AUTHENTICATION_FAILED:
                raise ConnectError(problem)
            if len(batch) == 1:
                raise PoisonRecord(problem, batch[0].number)
            for item in batch:
                self._send(url, [item])
        self._sent.note_up_to(batch[-1].record)

    def _request(self, url: str, batch: list[_Item]) -> HttpResponse:
        first, last = batch[0].record, batch[-1].record
        topic, partition = first.origin
        name = f"{self.context.connector}-{topic}-{partition}-{first.offset}"
        if last is not first:
            name = f"{name}-{last.offset}"
        headers = {self.settings.idempotency_header: name}
        if first.value is None:
            return self._client.request("DELETE", url, headers=headers)
        headers["Content-Type"] = _CONTENT_TYPES[self.settings.format]
        return self._client.request(
            self.settings.method, url, headers=headers, content=self._content(batch)
        )

    def _content(self, batch: list[_Item]) -> bytes:
        texts = []
        for item in batch:
            try:
                texts.append(_text(item.record.value, as_json=self.settings.format != "text"))
            except ValueError as error:
                raise PoisonRecord(str(error), item.number) from None
        if self.settings.format == "json":
            one = self.settings.batch_size == 1
            return (texts[0] if one else f"[{','.join(texts)}]").encode()
        if self.settings.format == "text" and self.settings.batch_size == 1:
            return texts[0].encode()
        return "".join(f"{text}\n" for text in texts).encode()


def _segments_with_gaps(template: str) -> Mapping[int, str]:
    """The segments of a template's path that records fill in, by number."""
    outline = GAP.sub(lambda gap: f"{{{quote(gap[1], safe='')}}}", template)
    segments = enumerate(urlsplit(outline).path.split("/"))
    return {number: segment for number, segment in segments if "{" in segment}


def _severity(failure: ConnectError) -> int:
    """The order in which failures are raised: those that fail the task first, poison records last."""
    return 2 if isinstance(failure, PoisonRecord) else isinstance(failure, RetriableError)


def _first_batch(items: list[_Item], size: int) -> list[_Item]:
    """The items of the next request; a record without a value is one of its own, a DELETE."""
    batch: list[_Item] = []
    for item in items[:size]:
        if item.record.value is None:
            return batch or [item]
        batch.append(item)
    return batch


def _text(value: object, *, as_json: bool) -> str:
    if as_json or not isinstance(value, str | bytes):
        return to_json(value)
    return value if isinstance(value, str) else value.decode()


class HttpSink(SinkConnector[HttpSinkSettings]):
    """Sends records to an HTTP interface."""

    settings_class = HttpSinkSettings
    task_class = HttpSinkTask
