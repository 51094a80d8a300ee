"""HttpSource: what an HTTP interface answers becomes records, polled page by page."""

import dataclasses
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strom.connect.api import (
    ConnectError,
    Kind,
    Schema,
    SourceConnector,
    SourceContext,
    SourceRecord,
    SourceTask,
    setting,
)
from strom.connect.api.schema import STRING
from strom.connect.connectors.web.calling import (
    LONGEST_WAIT_S,
    Answer,
    Caller,
    CallSettings,
    NotNow,
    address_problem,
    start_of,
)
from strom.connect.connectors.web.json_pointer import NotThere, is_pointer, look_up, resolve
from strom.connect.connectors.web.paging import (
    CursorPages,
    LinkedPages,
    NumberedPages,
    Paging,
    SinglePage,
)
from strom.connect.connectors.web.progress import (
    Freshness,
    Newest,
    Progress,
    TooManyAlike,
    digest_of,
)

MOST_DIGESTS_PER_RECORD = 200
"""Above this the records of a page share the offset of one before them: each would hold them all."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class HttpSourceSettings(CallSettings):
    """What an HTTP source can be told."""

    url: str = setting("url", Kind.STRING, "The address to ask.", required=True)
    topic: str = setting("topic", Kind.STRING, "Where the records go.", required=True)
    poll_interval_ms: int = setting(
        "poll.interval.ms", Kind.LONG, "The time between two rounds.", 60_000, minimum=0
    )
    format: str = setting(
        "format",
        Kind.STRING,
        "What an answer is: JSON, lines of which each is a record, or one text.",
        "json",
        choices=("json", "lines", "text"),
    )
    records_pointer: str = setting(
        "records.pointer",
        Kind.STRING,
        "Where in a JSON answer the records are, as a JSON pointer: /data/items. Without it the whole "
        "answer: each item of an array, or anything else as one record.",
        "",
    )
    key_pointer: str | None = setting(
        "key.pointer", Kind.STRING, "Where in a record its key is, as a JSON pointer: /id."
    )
    unchanged: str = setting(
        "unchanged",
        Kind.STRING,
        "What becomes of an answer that is the same as the last: it is left out, or given again. "
        "Counts where there is one page and no incremental value.",
        "skip",
        choices=("skip", "repeat"),
    )
    incremental_pointer: str | None = setting(
        "incremental.pointer",
        Kind.STRING,
        "Where in a record the value is that grows from record to record: /updated_at. Only what is "
        "newer than the newest seen is taken.",
    )
    incremental_parameter: str | None = setting(
        "incremental.parameter",
        Kind.STRING,
        "The query parameter that asks for what is newer than the newest seen: since.",
    )
    incremental_initial: str | None = setting(
        "incremental.initial", Kind.STRING, "What the first round asks for."
    )
    paging: str = setting(
        "paging",
        Kind.STRING,
        "How one gets to the next page: a link in the answer (at paging.pointer), a `Link` header, a "
        "cursor (from paging.pointer into paging.parameter), page numbers, or counts of records.",
        "none",
        choices=("none", "link", "header", "cursor", "page", "offset"),
    )
    paging_pointer: str | None = setting(
        "paging.pointer", Kind.STRING, "Where in an answer the next link or cursor is: /next."
    )
    paging_parameter: str | None = setting(
        "paging.parameter", Kind.STRING, "The query parameter for cursor, page or offset."
    )
    paging_first: int | None = setting(
        "paging.first", Kind.INT, "The first page's number: 1, and 0 for offsets, if not given."
    )
    paging_size: int | None = setting(
        "paging.size", Kind.INT, "How many records a full page has.", minimum=1
    )
    paging_size_parameter: str = setting(
        "paging.size.parameter", Kind.STRING, "The query parameter for paging.size.", "limit"
    )
    paging_max_pages: int = setting(
        "paging.max.pages", Kind.INT, "After so many pages a round ends.", 10_000, minimum=1
    )

    def validate(self) -> Mapping[str, str]:
        """Settings that do not go together."""
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

    def way_of_paging(self) -> Paging:
        """The way from page to page."""
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
    """Goes through the pages, round by round."""

    def __init__(self, settings: HttpSourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._partition = {"url": settings.url}
        self._paging = settings.way_of_paging()
        self._caller: Caller | None = None
        self._progress = Progress()
        self._due = 0.0
        self._pages = 0
        self._requested: set[str] = set()
        """Digests of the addresses that were requested in this round."""
        self._conditional = settings.paging == "none" and settings.unchanged == "skip"

    def start(self) -> None:
        """Take up the stored progress."""
        stored = self.context.offset(self._partition)
        if stored is not None:
            self._progress = Progress.of_offset(stored)
        named = (self.settings.url,)
        self._caller = Caller(self.settings, self.context.stopping, named=named)

    def poll(self) -> Sequence[SourceRecord]:
        """The next page's records, when it is time for it."""
        if self._caller is None:
            raise ConnectError("The task was not started.")
        wait = max(self._due - time.monotonic(), self._caller.ready_in)
        if wait > 0:
            self.context.stopping.wait(min(wait, LONGEST_WAIT_S))
            if wait > LONGEST_WAIT_S:
                return []
        try:
            return self._next_page(self._caller)
        except NotNow:
            return []

    def stop(self) -> None:
        """Close the connection."""
        if self._caller is not None:
            self._caller.close()

    def _next_page(self, caller: Caller) -> list[SourceRecord]:
        at = self._progress
        if at.done:
            at = at.next_round()
        answer = self._ask(caller, at)
        if answer.status == 304:
            self._end_round(self._progress)
            return []
        digest = digest_of(answer.body) if self._conditional else None
        if self._conditional and digest == at.digest and self._progress.done:
            self._end_round(self._progress)
            return []
        if digest != at.digest:
            at = dataclasses.replace(at, index=0, digest=digest)
        document, records, schema = self._read(answer)
        return self._made(records, schema, at, self._after(at, answer, document, len(records)))

    def _ask(self, caller: Caller, at: Progress) -> Answer:
        address = self._address(at)
        if at.repeats:
            raise ConnectError(
                f"The pages of {self.settings.url} repeat: {address} was already requested in this "
                "round. Correct paging.pointer or the interface, then reset the connector's offsets."
            )
        self._requested.add(digest_of(address))
        headers = {}
        if self._conditional and self._progress.done:
            headers = {"If-None-Match": at.etag, "If-Modified-Since": at.modified}
        answer = caller.call(
            "GET",
            address,
            headers={name: text for name, text in headers.items() if text is not None},
        )
        if answer.status >= 300 and answer.status != 304:  # a redirect that leads nowhere, too
            raise ConnectError(
                f"{answer.address} answers {answer.status}, which asking again will not change: "
                f"{start_of(answer.body)}{'' if answer.trusted else _NOT_TRUSTED}"
            )
        return answer

    def _address(self, at: Progress) -> str:
        """The address of a page, with its parameters."""
        url, parameters = self._paging.request(self.settings.url, at.page)
        parameters = dict(parameters)
        since = at.since if at.since is not None else self.settings.incremental_initial
        if self.settings.incremental_parameter and since is not None and url == self.settings.url:
            parameters[self.settings.incremental_parameter] = str(since)
        return _with_parameters(url, parameters)

    def _read(self, answer: Answer) -> tuple[Any, list[Any], Schema | None]:
        """The whole document, the records in it, and their schema."""
        if self.settings.format != "json":
            text = answer.body.decode("utf-8", "replace")
            lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
            return text, (lines if self.settings.format == "lines" and text else [text]), STRING
        try:
            document = json.loads(answer.body) if answer.body.strip() else []
            found = resolve(document, self.settings.records_pointer)
        except (ValueError, RecursionError) as error:
            raise ConnectError(
                f"{answer.address} does not answer JSON ({error}): {start_of(answer.body)}"
            ) from None
        except NotThere as error:
            raise ConnectError(f"In the answer of {answer.address} {error}.") from None
        return document, found if isinstance(found, list) else [found], None

    def _after(self, at: Progress, answer: Answer, document: Any, count: int) -> Progress:
        """The progress when this page is delivered: at the next one, or with the round done."""
        self._pages += 1
        following = self._paging.after(at.page, answer, document, count)
        if following is not None and self._pages >= self.settings.paging_max_pages:
            _log.warning("%s: a round ends after %d pages", self.settings.url, self._pages)
            following = None
        if following is not None:
            after = dataclasses.replace(at, page=following, index=0, digest=None, done=False)
            if digest_of(self._address(after)) not in self._requested:
                return after
            # An empty page with its own address as the next one is the end, for the time being.
            if count or self._address(after) != self._address(at):
                return dataclasses.replace(after, repeats=True)
        return dataclasses.replace(
            at,
            index=0,
            done=True,
            at_since=(),  # of no use any more: the next round takes those at the newest
            since_overflows=False,
            etag=answer.headers.get("etag"),
            modified=answer.headers.get("last-modified"),
        )

    def _made(
        self, records: list[Any], schema: Schema | None, at: Progress, after: Progress
    ) -> list[SourceRecord]:
        pointer = self.settings.incremental_pointer
        fresh = Freshness(at, server_filters=self.settings.incremental_parameter is not None)
        newest = Newest(at)
        made: list[SourceRecord] = []
        place = dataclasses.replace(at, done=False)
        offset = place.offset()
        for index, record in enumerate(records):
            value = look_up(record, pointer)
            if index < at.index or not self._is_fresh(fresh, record, value):
                continue
            if pointer is not None:
                newest.see(value, digest_of(record))
            if len(newest) + len(at.at_since) <= MOST_DIGESTS_PER_RECORD:
                offset = newest.noted_in(dataclasses.replace(place, index=index + 1)).offset()
            made.append(self._record(record, schema, offset))
        after = newest.noted_in(after)
        if made:
            made[-1] = made[-1]._replace(source_offset=after.offset())
        self._progress = after
        if after.done:
            self._end_round(after)
        return made

    def _is_fresh(self, fresh: Freshness, record: Any, value: Any) -> bool:
        try:
            return fresh.of(record, value)
        except TooManyAlike as error:
            raise ConnectError(
                f"{error} at incremental.pointer {self.settings.incremental_pointer}, and "
                f"{self.settings.url} returns them again: those that were delivered cannot be "
                "distinguished from new ones. Choose a value with finer steps, such as an id, and reset "
                "the connector's offsets."
            ) from None

    def _record(self, value: Any, schema: Schema | None, offset: dict[str, Any]) -> SourceRecord:
        key = look_up(value, self.settings.key_pointer)
        return SourceRecord(self._partition, offset, self.settings.topic, value, schema, key)

    def _end_round(self, progress: Progress) -> None:
        self._progress = progress
        self._pages = 0
        self._requested.clear()
        self._due = time.monotonic() + self.settings.poll_interval_ms / 1000


_NOT_TRUSTED = (
    ". The request was redirected to another server, to which credentials and the configured headers "
    "are not sent: set url to its address if it needs them"
)


def _with_parameters(url: str, parameters: Mapping[str, str]) -> str:
    """The address with parameters added to those that it has."""
    import httpx2

    return str(httpx2.URL(url).copy_merge_params(parameters)) if parameters else url


class HttpSource(SourceConnector[HttpSourceSettings]):
    """What an HTTP interface answers, polled page by page."""

    settings_class = HttpSourceSettings
    task_class = HttpSourceTask
    exactly_once = False  # the same question may be answered otherwise after a restart
