"""The registry as one object: the log and the state it adds up to, for whoever asks. Safe for threads."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from strom.registry.changes import Change
from strom.registry.formats import Parsed
from strom.registry.meanings import meaning, parsed, resolved
from strom.registry.records import (
    Content,
    Record,
    SchemaGone,
    SchemaVersion,
    SubjectCleared,
    decode,
)
from strom.registry.refusals import Refusal
from strom.registry.registering import SchemaRequest, lookup, register
from strom.registry.schemas_log import TOPIC, SchemasLog
from strom.registry.subjects import Subjects

Answer = TypeVar("Answer")


class Registry:
    """Subjects that follow the topic, and changes that are decided on their newest state."""

    def __init__(
        self, servers: str, *, topic: str = TOPIC, settings: Mapping[str, str] | None = None
    ) -> None:
        self._subjects = Subjects()
        self._lock = threading.RLock()
        self.log = SchemasLog(servers, self._apply, topic=topic, settings=settings)
        self.rendered: dict[int, bytes] = {}
        """Answers for ids, ready to be sent: what consumers ask most is one look into a dict."""

    def start(self) -> None:
        """Read all that there is."""
        self.log.start()

    def stop(self) -> None:
        """Leave."""
        self.log.stop()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Subjects]:
        """The state, which stands still meanwhile."""
        with self._lock:
            yield self._subjects

    def change(self, decide: Callable[[Subjects], Change[Answer]]) -> Answer:
        """Decide on the newest state, and answer when what was decided is safe."""

        def decided() -> Change[Answer]:
            with self._lock:
                return decide(self._subjects)

        return self.log.change(decided)

    def register(self, request: SchemaRequest) -> SchemaVersion:
        """Make a schema a version of a subject. One that is there already costs no write."""
        self.prepare(request.content)
        with self._lock:
            known = self._known(request)
        if known is not None:
            return known
        return self.change(lambda subjects: register(subjects, request))

    def prepare(self, content: Content) -> None:
        """Parse a schema while nobody has to wait for it: what was parsed is remembered."""
        with contextlib.suppress(Refusal):
            with self._lock:
                references = resolved(self._subjects, content)
            parsed(content, references)

    def content(self, schema_id: int) -> Content | None:
        """What an id means; one that another instance has just given is found too."""
        with self._lock:
            found = self._subjects.content(schema_id)
            behind = found is None and schema_id > self._subjects.highest_id
        if behind:
            self.log.catch_up()
            with self._lock:
                found = self._subjects.content(schema_id)
        return found

    def meaning(self, content: Content) -> Parsed:
        """A parsed schema."""
        with self._lock:
            return meaning(self._subjects, content)

    def _known(self, request: SchemaRequest) -> SchemaVersion | None:
        if request.id is not None or request.version is not None:
            return None
        try:
            return lookup(self._subjects, request)
        except Refusal:  # what it refers to may be known to another instance: the change will tell
            return None

    def _apply(self, record: Record) -> None:
        entry = decode(record)
        if entry is None:
            return
        with self._lock:
            self._subjects.apply(entry)
            if isinstance(entry, SchemaGone | SubjectCleared):
                self.rendered.clear()
