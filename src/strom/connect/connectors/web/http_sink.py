"""HttpSink: records are sent to an HTTP interface, at least once.

Every request carries a key made of topic, partition and offset, so that a server that knows such keys
can tell a repeated one.
"""

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from strom.connect.api import (
    ConnectError,
    Kind,
    PoisonRecord,
    RetriableError,
    SinkConnector,
    SinkContext,
    SinkRecord,
    SinkTask,
    TopicPartition,
    setting,
)
from strom.connect.connectors.plain_json import to_json
from strom.connect.connectors.record_template import GAP, RecordTemplate
from strom.connect.connectors.sent_since_flush import SentSinceFlush
from strom.connect.connectors.web.calling import (
    Answer,
    Caller,
    CallSettings,
    address_problem,
    redirect_location,
    start_of,
)

_NOT_THE_RECORDS_FAULT = {401, 403, 407}
_ALREADY_GONE = {404, 410}


@dataclass(frozen=True, kw_only=True)
class HttpSinkSettings(CallSettings):
    """What an HTTP sink can be told."""

    url: str = setting(
        "url",
        Kind.STRING,
        "Where records are sent. {topic}, {partition}, {offset}, {key} and {FIELD} are filled in.",
        required=True,
    )
    method: str = setting(
        "method", Kind.STRING, "How they are sent.", "POST", choices=("POST", "PUT", "PATCH")
    )
    format: str = setting(
        "format",
        Kind.STRING,
        "What is sent: JSON (an array of it, if batch.size is over 1), lines of JSON, or texts.",
        "json",
        choices=("json", "lines", "text"),
    )
    batch_size: int = setting(
        "batch.size", Kind.INT, "How many records go into one request, at most.", 1, minimum=1
    )
    null_values: str = setting(
        "null.values",
        Kind.STRING,
        "What a record without a value does: nothing, a DELETE of its address, or it is refused.",
        "ignore",
        choices=("ignore", "delete", "fail"),
    )
    idempotency_header: str = setting(
        "idempotency.header",
        Kind.STRING,
        "The header that holds a request's key, by which the server can tell a repeated one.",
        "Idempotency-Key",
    )
    max_connections: int = setting(
        "max.connections",
        Kind.INT,
        "How many requests are made at a time, at most; those of one partition stay in order.",
        1,
        minimum=1,
        maximum=100,
    )

    def validate(self) -> Mapping[str, str]:
        """Settings that do not go together."""
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
    """A record on its way."""

    place: int
    """Among the records of the call."""
    record: SinkRecord
    url: str


class HttpSinkTask(SinkTask[HttpSinkSettings]):
    """Sends records, each partition's in order."""

    def __init__(self, settings: HttpSinkSettings, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._template = RecordTemplate(settings.url, lambda value: quote(value, safe=""))
        self._gaps = _segments_with_gaps(settings.url)
        self._caller: Caller | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._sent = SentSinceFlush()

    def start(self) -> None:
        """Be ready to call; nothing is sent yet."""
        count = self.settings.max_connections
        self._caller = Caller(
            self.settings, self.context.stopping, connections=count, redirects=False
        )
        self._threads = ThreadPoolExecutor(count, "http-sink") if count > 1 else None

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Go on where the group was; what was sent of a recreated topic is not taken for sent."""
        self._sent.open(partitions, self.context)
        return {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Send everything; what a repeated call brings again is not sent twice."""
        items: dict[TopicPartition, list[_Item]] = {}
        for index, record in enumerate(records):
            ignored = record.value is None and self.settings.null_values == "ignore"
            if not ignored and record not in self._sent:
                item = _Item(index, record, self._address(index, record))
                items.setdefault(record.origin, []).append(item)
        failures = self._send_partitions(items)
        if failures:
            raise min(failures, key=_patience)

    def flush(self) -> None:
        """Nothing is left to do: `put` returns when the server has answered."""
        self._sent.clear()

    def stop(self) -> None:
        """Close all connections."""
        if self._threads is not None:
            self._threads.shutdown()
        if self._caller is not None:
            self._caller.close()

    def _address(self, index: int, record: SinkRecord) -> str:
        try:
            if record.value is None and self.settings.null_values == "fail":
                raise ValueError("The record has no value; null.values says that it needs one")
            address = self._template.fill(record)
            self._check_segments(address)
            return address
        except ValueError as error:
            raise PoisonRecord(str(error), index) from None

    def _check_segments(self, address: str) -> None:
        """ValueError if the record makes a segment of the path `.` or `..`: they lead elsewhere.

        Nor can they be written in another way: `%2E%2E` means the same to clients and servers.
        """
        if not self._gaps:
            return
        # What fills a gap has no slash, for it is quoted: the places are those of the template.
        segments = urlsplit(address).path.split("/")
        for place, gap in self._gaps.items():
            if unquote(segments[place]) in {".", ".."}:
                raise ValueError(
                    f"The record makes {gap} in the path of url {segments[place]!r}, which would "
                    "address something else"
                )

    def _send_partitions(self, items: Mapping[TopicPartition, list[_Item]]) -> list[ConnectError]:
        """Send all, side by side as far as allowed; what went wrong."""
        run = map if self._threads is None else self._threads.map
        results = list(run(self._send_in_order, items.values()))
        return [failure for failure in results if failure is not None]

    def _send_in_order(self, items: list[_Item]) -> ConnectError | None:
        """Send one partition's records; what went wrong, if anything did."""
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
        """Send a batch; one that is refused as a whole is sent record by record."""
        answer = self._request(url, batch)
        # Deleting is idempotent: a DELETE is repeated when its response was lost.
        gone = batch[0].record.value is None and answer.status in _ALREADY_GONE
        if answer.status >= 300 and not gone:
            problem = f"{url} answers {answer.status}: {start_of(answer.body)}"
            if (location := redirect_location(answer)) is not None:
                problem = (
                    f"{url} answers {answer.status} and redirects to {location}. A sink follows no "
                    "redirects: set url to the address that takes the records."
                )
            if answer.status < 400 or answer.status in _NOT_THE_RECORDS_FAULT:
                raise ConnectError(problem)
            if len(batch) == 1:
                raise PoisonRecord(problem, batch[0].place)
            for item in batch:
                self._send(url, [item])
        self._sent.note_up_to(batch[-1].record)

    def _request(self, url: str, batch: list[_Item]) -> Answer:
        if self._caller is None:
            raise ConnectError("The task was not started.")
        first, last = batch[0].record, batch[-1].record
        topic, partition = first.origin
        name = f"{self.context.connector}-{topic}-{partition}-{first.offset}"
        if last is not first:
            name = f"{name}-{last.offset}"
        headers = {self.settings.idempotency_header: name}
        if first.value is None:
            return self._caller.call("DELETE", url, headers=headers)
        headers["Content-Type"] = _CONTENT_TYPES[self.settings.format]
        return self._caller.call(
            self.settings.method, url, headers=headers, content=self._content(batch)
        )

    def _content(self, batch: list[_Item]) -> bytes:
        texts = []
        for item in batch:
            try:
                texts.append(_text(item.record.value, as_json=self.settings.format != "text"))
            except ValueError as error:
                raise PoisonRecord(str(error), item.place) from None
        if self.settings.format == "json":
            one = self.settings.batch_size == 1
            return (texts[0] if one else f"[{','.join(texts)}]").encode()
        if self.settings.format == "text" and self.settings.batch_size == 1:
            return texts[0].encode()
        return "".join(f"{text}\n" for text in texts).encode()


def _segments_with_gaps(template: str) -> Mapping[int, str]:
    """The segments of a template's path that records fill, by their place."""
    outline = GAP.sub(lambda gap: f"{{{quote(gap[1], safe='')}}}", template)
    segments = enumerate(urlsplit(outline).path.split("/"))
    return {place: segment for place, segment in segments if "{" in segment}


def _patience(failure: ConnectError) -> int:
    """Which of several failures is told: what fails the task first, single records last."""
    return 2 if isinstance(failure, PoisonRecord) else isinstance(failure, RetriableError)


def _first_batch(items: list[_Item], size: int) -> list[_Item]:
    """As many as go into one request: a record without a value goes alone."""
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
    """Records sent to an HTTP interface."""

    settings_class = HttpSinkSettings
    task_class = HttpSinkTask
