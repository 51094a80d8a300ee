"""WebPageSource: reads web pages by CSS selectors; only changed pages become records."""

import gzip
import io
import logging
import time
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from strom.connect.api import (
    ConnectError,
    RetriableError,
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
    RedirectRefused,
    RequestNotDue,
    ResponseTooLarge,
    address_problem,
    if_changed,
    is_due,
)
from strom.connect.connectors.web.page_reading import (
    WebPage,
    check_selector,
    page_address,
    parse_fields,
    schema_of,
    sitemap_locations,
)
from strom.connect.connectors.web.progress import digest_of
from strom.connect.connectors.web.robots import MAX_BYTES, Robots
from strom.connect.setting_forms import integer, milliseconds, string, strings

MAX_ATTEMPTS = 3
MAX_SITEMAPS = 50
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PageSourceSettings(HttpClientSettings):
    urls: tuple[str, ...] = strings("urls", "The pages to visit.")
    sitemap: str | None = string("sitemap", "The address of a sitemap, whose pages are visited.")
    topic: str = string("topic", "The topic of the records.", required=True)
    fields: str | None = string(
        "fields",
        "What to read from a page, as `name: CSS selector` with | between: title: h1 | image: img@src "
        "(an attribute) | tags[]: .tag (all of them). Without it: title and text.",
    )
    item_selector: str | None = string(
        "item.selector", "A CSS selector: each element that it selects is a record."
    )
    key_field: str = string("key.field", "The field that becomes the record's key.", "url")
    follow_depth: int = integer(
        "follow.depth",
        "Up to how many links away pages of the same site are visited too.",
        0,
        minimum=0,
    )
    max_pages: int = integer("max.pages", "The most pages in a round.", 1000)
    poll_interval_ms: int = milliseconds(
        "poll.interval.ms", "The time between two rounds.", 3_600_000
    )
    delay_ms: int = milliseconds(
        "delay.ms",
        "The time between two visits of one site; longer if its robots.txt demands it.",
        1000,
    )
    user_agent: str = string(
        "user.agent",
        "The User-Agent of requests, and the name that rules in robots.txt are matched with.",
        "strom",
    )

    def validate(self) -> Mapping[str, str]:
        problems = dict(super().validate())
        if not self.urls and not self.sitemap:
            problems["urls"] = "Set urls or sitemap: the pages to visit."
        for name, addresses in (
            ("urls", self.urls),
            ("sitemap", (self.sitemap,) if self.sitemap else ()),
        ):
            for address in addresses:
                if (problem := address_problem(address)) is not None:
                    problems[name] = problem
        try:
            names = [field.name for field in parse_fields(self.fields)]
            if self.key_field not in ("url", *names):
                problems["key.field"] = f"Unknown field {self.key_field}: it is not in fields."
        except ValueError as error:
            problems["fields"] = f"fields: {error}."
        try:
            check_selector(self.item_selector or "")
        except ValueError as error:
            problems["item.selector"] = f"item.selector: {error}."
        return problems

    def public_headers(self) -> dict[str, str]:
        return {"User-Agent": self.user_agent}


@dataclass(frozen=True)
class Visit:
    """A page in the queue."""

    url: str
    depth: int = 0
    """How many links it is away from a configured page."""
    attempt: int = 1

    @property
    def site(self) -> str:
        """The page's origin: scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def path(self) -> str:
        """The page's path and query on its site."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


class Round:
    """The pages of one round: each once, at most so many, with a delay between two visits of a site."""

    def __init__(self, most_pages: int) -> None:
        self._waiting: deque[Visit] = deque()
        self._known: set[str] = set()
        self._most_pages = most_pages
        self._ready_at: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, url: str, depth: int) -> None:
        """Queue a page, unless it was queued before or the round is full."""
        if url not in self._known and len(self._known) < self._most_pages:
            self._known.add(url)
            self._waiting.append(Visit(url, depth))

    def retry(self, visit: Visit) -> None:
        """Queue a page again, after all others."""
        self._waiting.append(Visit(visit.url, visit.depth, visit.attempt + 1))

    def wait(self, now: float) -> float:
        """Seconds until a page can be visited."""
        if not self._waiting:
            return 0.0
        sites = {visit.site for visit in self._waiting}
        return max(0.0, min(self._ready_at.get(site, 0.0) for site in sites) - now)

    def take(self, now: float) -> Visit | None:
        """Remove and return the next page whose site may be visited now."""
        for visit in self._waiting:
            if self._ready_at.get(visit.site, 0.0) <= now:
                self._waiting.remove(visit)
                return visit
        return None

    def delay_site(self, site: str, until: float) -> None:
        """Visit no page of a site before then."""
        self._ready_at[site] = until


class PageSourceTask(SourceTask[PageSourceSettings]):
    """Visits pages, round by round, one at a time."""

    def __init__(self, settings: PageSourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._fields = parse_fields(settings.fields)
        self._schema = schema_of(self._fields)
        self._key_schema = STRING if settings.key_field == "url" else None
        named = (*settings.urls, *((settings.sitemap,) if settings.sitemap else ()))
        self._client = HttpClient(settings, context.stopping, named=named)
        self._round = Round(settings.max_pages)
        self._robots: dict[str, Robots] = {}
        self._states: dict[str, Mapping[str, Any]] = {}
        self._due = 0.0
        self._begun = False

    def poll(self) -> Sequence[SourceRecord]:
        """The records of the next page, if it has changed."""
        now = time.monotonic()
        wait = self._round.wait(now) if self._begun else self._due - now
        if not is_due(wait, self.context.stopping):
            return []
        if not self._begun:
            self._begin_round()
        visit = self._round.take(time.monotonic())
        records = self._visit(visit) if visit is not None else []
        if not self._round:
            self._begun = False
            self._due = time.monotonic() + self.settings.poll_interval_ms / 1000
        return records

    def stop(self) -> None:
        self._client.close()

    def _begin_round(self) -> None:
        beginning = Round(self.settings.max_pages)
        listed = self._sitemap_pages(self.settings.sitemap) if self.settings.sitemap else []
        for url in (*self.settings.urls, *listed):
            if (address := page_address("", url)) is not None:
                beginning.add(address, 0)
        self._round, self._begun = beginning, True
        self._robots.clear()

    def _sitemap_pages(self, address: str) -> list[str]:
        """The pages of a sitemap, and of those that it lists."""
        pages, sitemaps, requested = [], [address], 0
        while sitemaps and requested < MAX_SITEMAPS:
            response = self._client.request("GET", sitemaps.pop(0))
            requested += 1
            if response.status != 200:
                raise ConnectError(
                    f"The sitemap {response.address} responded with {response.status}."
                )
            text = _sitemap_text(response.body, self.settings.max_response_bytes)
            found = sitemap_locations(text)
            if "<sitemapindex" in text:
                sitemaps += found
            else:
                pages += found
        return pages

    def _visit(self, visit: Visit) -> list[SourceRecord]:
        """Visit a page if robots.txt allows it; RetriableError if the site is unavailable."""
        try:
            robots = self._robots_of(visit.site)
            pause = max(self.settings.delay_ms / 1000, robots.delay or 0.0)
            if not robots.allows(visit.path):
                _log.info("%s is skipped: robots.txt disallows it", visit.url)
                return []
            self._round.delay_site(visit.site, time.monotonic() + pause)
            return self._records(visit, self._request(visit))
        except (ResponseTooLarge, RedirectRefused) as error:
            _log.warning("%s is skipped: %s", visit.url, error)
            return []
        except RetriableError as error:
            if isinstance(error, RequestNotDue) or visit.attempt < MAX_ATTEMPTS:
                self._round.retry(visit)
            else:
                _log.warning("%s is skipped until the next round: %s", visit.url, error)
            if isinstance(error, RequestNotDue):
                return []
            raise

    def _robots_of(self, site: str) -> Robots:
        if site not in self._robots:
            response = self._client.request("GET", f"{site}/robots.txt")
            text = response.body[:MAX_BYTES].decode("utf-8", "replace")
            self._robots[site] = Robots(
                text if response.status == 200 else "", self.settings.user_agent
            )
        return self._robots[site]

    def _request(self, visit: Visit) -> HttpResponse:
        state = self._state(visit.url)
        headers = {}
        if state.get("done") and not self._is_followed(visit):
            headers = if_changed(state.get("etag"), state.get("modified"))
        return self._client.request("GET", visit.url, headers=headers)

    def _is_followed(self, visit: Visit) -> bool:
        # Its links are needed, and a 304 response has none: such a page is requested unconditionally.
        return visit.depth < self.settings.follow_depth

    def _records(self, visit: Visit, response: HttpResponse) -> list[SourceRecord]:
        if response.status == 304:
            return []
        if response.status != 200:
            _log.warning("%s is skipped: the response is %d", visit.url, response.status)
            return []
        if urlsplit(response.url).netloc != urlsplit(visit.url).netloc and visit.depth > 0:
            return []  # a link that leaves the site by a redirect
        page = WebPage(response.url, response.body, _charset(response.headers.get("content-type")))
        if self._is_followed(visit):
            for link in page.links():
                if urlsplit(link).netloc == urlsplit(visit.url).netloc:
                    self._round.add(link, visit.depth + 1)
        return self._undelivered(visit.url, page, response)

    def _undelivered(self, url: str, page: WebPage, response: HttpResponse) -> list[SourceRecord]:
        values = page.read(self.settings.item_selector, self._fields)
        state, digest = self._state(url), digest_of(values)
        delivered = state.get("index", 0) if state.get("digest") == digest else 0
        if delivered and state.get("done"):
            return []
        tags = {
            "etag": response.headers.get("etag"),
            "modified": response.headers.get("last-modified"),
        }
        done = {"digest": digest, "index": len(values), "done": True}
        done |= {name: text for name, text in tags.items() if text}
        key = self.settings.key_field
        self._states[url] = done
        return [
            SourceRecord(
                {"url": url},
                done if index == len(values) else {"digest": digest, "index": index},
                self.settings.topic,
                value,
                self._schema,
                value.get(key),
                self._key_schema,
            )
            for index, value in enumerate(values, 1)
            if index > delivered
        ]

    def _state(self, url: str) -> Mapping[str, Any]:
        if url not in self._states:
            self._states[url] = self.context.offset({"url": url}) or {}
        return self._states[url]


def _charset(content_type: str | None) -> str | None:
    message = EmailMessage()
    message["content-type"] = content_type or "text/html"
    return message.get_content_charset()


def _sitemap_text(body: bytes, limit: int) -> str:
    if body[:2] == b"\x1f\x8b":
        try:
            body = gzip.GzipFile(fileobj=io.BytesIO(body)).read(limit)
        except (OSError, EOFError, zlib.error) as error:
            raise ConnectError(f"The sitemap cannot be decompressed: {error}") from None
    return body.decode("utf-8", "replace")


class WebPageSource(SourceConnector[PageSourceSettings]):
    """Reads web pages by CSS selectors."""

    settings_class = PageSourceSettings
    task_class = PageSourceTask
    exactly_once = False  # a page may have changed before it is visited again

    def task_settings(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Assign pages to tasks by site, so that one task keeps the delay between a site's visits."""
        sites: dict[str, list[str]] = {}
        for url in self.settings.urls:
            sites.setdefault(Visit(url).site, []).append(url)
        if self.settings.sitemap or len(sites) < 2:
            return [{}]
        assigned: list[list[str]] = [[] for _ in range(min(max_tasks, len(sites)))]
        for number, urls in enumerate(sites.values()):
            assigned[number % len(assigned)] += urls
        return [{"urls": ",".join(urls)} for urls in assigned]
