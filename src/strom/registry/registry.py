"""The registry as one thread-safe object: the log, and the state that its records add up to."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from strom.registry.content_parsing import parse_content
from strom.registry.formats import ParsedSchema
from strom.registry.records import (
    Content,
    SchemaTombstone,
    SchemaVersion,
    StateChange,
    SubjectCleared,
    TopicRecord,
    decode,
)
from strom.registry.refusals import UNAVAILABLE, RestError
from strom.registry.registering import SchemaRequest, lookup, register
from strom.registry.schemas_log import TOPIC, SchemasLog
from strom.registry.slow_work import SlowWork
from strom.registry.subjects import Subjects

Response = TypeVar("Response")


class Registry:
    """Subjects that follow the topic; changes are decided on their newest state."""

    def __init__(
        self, servers: str, *, topic: str = TOPIC, settings: Mapping[str, str] | None = None
    ) -> None:
        self._subjects = Subjects()
        self._lock = threading.RLock()
        self.log = SchemasLog(servers, self._apply, topic=topic, settings=settings)
        self.rendered: dict[int, bytes] = {}
        """Encoded responses by id: the most frequent request of consumers is one lookup in a dict."""

    def start(self) -> None:
        """Read the topic to its end, then follow it."""
        self.log.start()

    def stop(self) -> None:
        self.log.stop()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Subjects]:
        """The state, locked against changes."""
        with self._lock:
            yield self._subjects

    def read(self, decide: Callable[[Subjects], Response]) -> Response:
        """Decide on the state; schemas are parsed and compared without the lock."""
        return SlowWork().decide(lambda: self._locked(decide))

    def change(
        self, decide: Callable[[Subjects], StateChange[Response]], work: SlowWork | None = None
    ) -> Response:
        """Decide on the newest state, and respond when the entries are durable."""
        return (work or SlowWork()).decide(
            lambda: self.log.change(lambda: self._locked(decide)),
        )

    def register(self, request: SchemaRequest) -> SchemaVersion:
        """Register a schema as a version of a subject; one that is registered already costs no write."""
        work = SlowWork()
        known = self._tried(work, lambda subjects: _known(subjects, request))
        if known is not None:
            return known
        # What the decision needs is computed before it holds the lock on changes.
        self._tried(work, lambda subjects: register(subjects, request))
        return self.change(lambda subjects: register(subjects, request), work)

    def _tried(self, work: SlowWork, decide: Callable[[Subjects], Response]) -> Response | None:
        """A decision on the state so far; None if it is refused: the newest state may allow it."""
        try:
            return work.decide(lambda: self._locked(decide))
        except RestError as error:
            if error.code == UNAVAILABLE:
                raise
            return None

    def _locked(self, decide: Callable[[Subjects], Response]) -> Response:
        with self._lock:
            return decide(self._subjects)

    def content(self, schema_id: int) -> Content | None:
        """The content of an id, also if another instance has just assigned it."""
        with self._lock:
            found = self._subjects.content(schema_id)
            behind = found is None and schema_id > self._subjects.highest_id
        if behind:
            self.log.catch_up()
            with self._lock:
                found = self._subjects.content(schema_id)
        return found

    def parse_content(self, content: Content) -> ParsedSchema:
        """The parsed schema of a stored content."""
        return self.read(lambda subjects: parse_content(subjects, content, lenient=True))

    def _apply(self, record: TopicRecord) -> None:
        entry = decode(record)
        if entry is None:
            return
        with self._lock:
            self._subjects.apply(entry)
            if isinstance(entry, SchemaTombstone | SubjectCleared):
                self.rendered.clear()


def _known(subjects: Subjects, request: SchemaRequest) -> SchemaVersion | None:
    if request.id is not None or request.version is not None:
        return None
    return lookup(subjects, request)
