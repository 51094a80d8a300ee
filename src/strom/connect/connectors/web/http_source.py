"""HttpSource: polls an HTTP interface page by page, and makes records of its responses."""

import dataclasses
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from strom.connect.api import (
    ConnectError,
    Schema,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
)
from strom.connect.api.schema import STRING
from strom.connect.connectors.web.http_client import (
    HttpClient,
    HttpClientSettings,
    HttpResponse,
    RequestNotDue,
    address_problem,
    if_changed,
    is_due,
    start_of,
)
from strom.connect.connectors.web.paging import (
    CursorPages,
    LinkedPages,
    NumberedPages,
    Paging,
    PointerNotFound,
    SinglePage,
    is_pointer,
    look_up,
    resolve,
)
from strom.connect.connectors.web.progress import (
    DeliveredFilter,
    NewestRecords,
    RoundProgress,
    TooManyTies,
    digest_of,
)
from strom.connect.setting_forms import choice, integer, milliseconds, string

MAX_DIGESTS_PER_RECORD = 200
"""With more digests, the records of a page share an offset: each offset would hold all of them."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class HttpSourceSettings(HttpClientSettings):
    url: str = string("url", "The address to poll.", required=True)
    topic: str = string("topic", "The topic of the records.", required=True)
    poll_interval_ms: int = milliseconds("poll.interval.ms", "The time between two rounds.", 60_000)
    format: str = choice(
        "format",
        "The format of responses: JSON, lines of which each is a record, or one text.",
        ("json", "lines", "text"),
    )
    records_pointer: str = string(
        "records.pointer",
        "The JSON pointer of the records in a response: /data/items. Without it the whole response: each "
        "item of an array, or any other value as one record.",
        "",
    )
    key_pointer: str | None = string("key.pointer", "The JSON pointer of the key in a record: /id.")
    unchanged: str = choice(
        "unchanged",
        "Whether to skip a response that equals the last one, or to deliver it again. Applies to a "
        "single page without an incremental value.",
        ("skip", "repeat"),
    )
    incremental_pointer: str | None = string(
        "incremental.pointer",
        "The JSON pointer of a value that grows from record to record: /updated_at. Only records newer "
        "than the newest seen are delivered.",
    )
    incremental_parameter: str | None = string(
        "incremental.parameter",
        "The query parameter that requests records newer than the newest seen: since.",
    )
    incremental_initial: str | None = string(
        "incremental.initial", "The value of incremental.parameter in the first round."
    )
    paging: str = choice(
        "paging",
        "How to get the next page: by a link in the response (at paging.pointer), by a `Link` header, by "
        "a cursor (from paging.pointer in paging.parameter), by page number, or by record offset.",
        ("none", "link", "header", "cursor", "page", "offset"),
    )
    paging_pointer: str | None = string(
        "paging.pointer", "The JSON pointer of the next link or cursor: /next."
    )
    paging_parameter: str | None = string(
        "paging.parameter", "The query parameter for cursor, page or offset."
    )
    paging_first: int | None = integer(
        "paging.first", "The first page number or offset; by default 1 and 0.", minimum=None
    )
    paging_size: int | None = integer("paging.size", "The number of records in a full page.")
    paging_size_parameter: str = string(
        "paging.size.parameter", "The query parameter for paging.size.", "limit"
    )
    paging_max_pages: int = integer("paging.max.pages", "The most pages in a round.", 10_000)

    def validate(self) -> Mapping[str, str]:
        problems = dict(super().validate())
        if (problem := address_problem(self.url)) is not None:
            problems["url"] = problem
        for name in ("records.pointer", "key.pointer", "incremental.pointer", "paging.pointer"):
            if not is_pointer(self.value(name) or ""):
                problems[name] = f"{name} must begin with /, as in /data/items."
            if self.format != "json" and self.value(name):
                problems[name] = f"{name} needs format=json."
        if self.paging in {"link", "cursor"} and self.paging_pointer is None:
            problems["paging.pointer"] = f"paging={self.paging} needs paging.pointer."
        if self.paging == "cursor" and self.paging_parameter is None:
            problems["paging.parameter"] = "paging=cursor needs paging.parameter."
        if self.incremental_parameter and self.incremental_pointer is None:
            problems["incremental.pointer"] = "incremental.parameter needs incremental.pointer."
        return problems

    def make_paging(self) -> Paging:
        if self.paging in {"link", "header"}:
            return LinkedPages(self.paging_pointer if self.paging == "link" else None)
        if self.paging == "cursor":
            return CursorPages(self.paging_pointer or "", self.paging_parameter or "")
        if self.paging == "none":
            return SinglePage()
        by_record = self.paging == "offset"
        first = self.paging_first if self.paging_first is not None else (0 if by_record else 1)
        size = (self.paging_size_parameter, self.paging_size) if self.paging_size else None
        return NumberedPages(self.paging_parameter or self.paging, first, size, by_record=by_record)


class HttpSourceTask(SourceTask[HttpSourceSettings]):
    """Reads all pages, round by round."""

    def __init__(self, settings: HttpSourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._partition = {"url": settings.url}
        self._paging = settings.make_paging()
        self._client = HttpClient(settings, context.stopping, named=(settings.url,))
        self._progress = RoundProgress()
        self._due = 0.0
        self._pages = 0
        self._requested: set[str] = set()
        """Digests of the addresses that were requested in this round."""
        self._conditional = settings.paging == "none" and settings.unchanged == "skip"

    def start(self) -> None:
        """Continue from the stored progress."""
        stored = self.context.offset(self._partition)
        if stored is not None:
            self._progress = RoundProgress.from_offset(stored)

    def poll(self) -> Sequence[SourceRecord]:
        """The records of the next page; empty while it is not due."""
        wait = max(self._due - time.monotonic(), self._client.ready_in)
        if not is_due(wait, self.context.stopping):
            return []
        try:
            return self._next_page()
        except RequestNotDue:
            return []

    def stop(self) -> None:
        self._client.close()

    def _next_page(self) -> list[SourceRecord]:
        at = self._progress
        if at.done:
            at = at.next_round()
        response = self._request(at)
        if response.status == 304:
            self._end_round(self._progress)
            return []
        digest = digest_of(response.body) if self._conditional else None
        if self._conditional and digest == at.digest and self._progress.done:
            self._end_round(self._progress)
            return []
        if digest != at.digest:
            at = dataclasses.replace(at, index=0, digest=digest)
        document, records, schema = self._read(response)
        return self._deliver(records, schema, at, self._after(at, response, document, len(records)))

    def _request(self, at: RoundProgress) -> HttpResponse:
        address = self._address(at)
        if at.repeats:
            raise ConnectError(
                f"The pages of {self.settings.url} repeat: {address} was already requested in this "
                "round. Correct paging.pointer or the interface, then reset the connector's offsets."
            )
        self._requested.add(digest_of(address))
        is_repeated = self._conditional and self._progress.done
        headers = if_changed(at.etag, at.modified) if is_repeated else {}
        response = self._client.request("GET", address, headers=headers)
        # A redirect without a location comes here too.
        if response.status >= 300 and response.status != 304:
            raise ConnectError(
                f"{response.address} responded with {response.status}, which is not retried: "
                f"{start_of(response.body)}{'' if response.trusted else _NOT_TRUSTED}"
            )
        return response

    def _address(self, at: RoundProgress) -> str:
        """The address of a page, with its parameters."""
        url, parameters = self._paging.request(self.settings.url, at.page)
        parameters = dict(parameters)
        since = at.since if at.since is not None else self.settings.incremental_initial
        if self.settings.incremental_parameter and since is not None and url == self.settings.url:
            parameters[self.settings.incremental_parameter] = str(since)
        return _with_parameters(url, parameters)

    def _read(self, response: HttpResponse) -> tuple[Any, list[Any], Schema | None]:
        """The document, its records, and their schema."""
        if self.settings.format != "json":
            text = response.body.decode("utf-8", "replace")
            lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
            return text, (lines if self.settings.format == "lines" and text else [text]), STRING
        try:
            document = json.loads(response.body) if response.body.strip() else []
            found = resolve(document, self.settings.records_pointer)
        except (ValueError, RecursionError) as error:
            raise ConnectError(
                f"The response of {response.address} is not JSON ({error}): {start_of(response.body)}"
            ) from None
        except PointerNotFound as error:
            raise ConnectError(f"In the response of {response.address} {error}.") from None
        return document, found if isinstance(found, list) else [found], None

    def _after(
        self, at: RoundProgress, response: HttpResponse, document: Any, count: int
    ) -> RoundProgress:
        """The progress after this page: at the next one, or at the end of the round."""
        self._pages += 1
        following = self._paging.after(at.page, response, document, count)
        if following is not None and self._pages >= self.settings.paging_max_pages:
            _log.warning(
                "%s: the round ends after %d pages (paging.max.pages)",
                self.settings.url,
                self._pages,
            )
            following = None
        if following is not None:
            after = dataclasses.replace(at, page=following, index=0, digest=None, done=False)
            if digest_of(self._address(after)) not in self._requested:
                return after
            # An empty page that links to itself is the end, until there are new records.
            if count or self._address(after) != self._address(at):
                return dataclasses.replace(after, repeats=True)
        return dataclasses.replace(
            at,
            index=0,
            done=True,
            at_since=(),  # replaced by `at_newest` in the next round
            since_overflows=False,
            etag=response.headers.get("etag"),
            modified=response.headers.get("last-modified"),
        )

    def _deliver(
        self, values: list[Any], schema: Schema | None, at: RoundProgress, after: RoundProgress
    ) -> list[SourceRecord]:
        pointer = self.settings.incremental_pointer
        delivered = DeliveredFilter(
            at, server_filters=self.settings.incremental_parameter is not None
        )
        newest = NewestRecords(at)
        records: list[SourceRecord] = []
        within = dataclasses.replace(at, done=False)
        offset = within.to_offset()
        for index, value in enumerate(values):
            incremental = look_up(value, pointer)
            if index < at.index or not self._is_new(delivered, value, incremental):
                continue
            if pointer is not None:
                newest.add(incremental, digest_of(value))
            if len(newest) + len(at.at_since) <= MAX_DIGESTS_PER_RECORD:
                offset = newest.noted_in(dataclasses.replace(within, index=index + 1)).to_offset()
            records.append(self._record(value, schema, offset))
        after = newest.noted_in(after)
        if records:
            records[-1] = records[-1]._replace(source_offset=after.to_offset())
        self._progress = after
        if after.done:
            self._end_round(after)
        return records

    def _is_new(self, delivered: DeliveredFilter, value: Any, incremental: Any) -> bool:
        try:
            return delivered.is_new(value, incremental)
        except TooManyTies as error:
            raise ConnectError(
                f"{error} at incremental.pointer {self.settings.incremental_pointer}, and "
                f"{self.settings.url} returns them again: delivered records cannot be distinguished from "
                "new ones. Choose a value with finer steps, such as an id, and reset the connector's "
                "offsets."
            ) from None

    def _record(self, value: Any, schema: Schema | None, offset: dict[str, Any]) -> SourceRecord:
        key = look_up(value, self.settings.key_pointer)
        return SourceRecord(self._partition, offset, self.settings.topic, value, schema, key)

    def _end_round(self, progress: RoundProgress) -> None:
        self._progress = progress
        self._pages = 0
        self._requested.clear()
        self._due = time.monotonic() + self.settings.poll_interval_ms / 1000


_NOT_TRUSTED = (
    ". The request was redirected to another server, to which credentials and the configured headers "
    "are not sent: set url to its address if it needs them"
)


def _with_parameters(url: str, parameters: Mapping[str, str]) -> str:
    """The address with further query parameters."""
    return str(httpx2.URL(url).copy_merge_params(parameters)) if parameters else url


class HttpSource(SourceConnector[HttpSourceSettings]):
    """Polls an HTTP interface page by page."""

    settings_class = HttpSourceSettings
    task_class = HttpSourceTask
    exactly_once = False  # after a restart, the same request may get another response
