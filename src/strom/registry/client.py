"""A client of a schema registry: strom's, Confluent's, or any that speaks the same interface.

Synchronous, safe for threads, and it remembers: an id stands for one schema for ever, so after the first
question a producer or consumer asks no more.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from strom.model.errors import UserError
from strom.model.retries import RetryPolicy
from strom.registry.formats.schema import Reference
from strom.registry.framing import (
    NotFramed,
    frame,
    frame_message_indexes,
    unframe,
    unframe_message_indexes,
)
from strom.supervision.retrying import retry

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "NotFramed",
    "Reference",
    "RegisteredSchema",
    "RegistryClient",
    "RegistryError",
    "RegistryUnreachable",
    "frame",
    "frame_message_indexes",
    "unframe",
    "unframe_message_indexes",
]

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
RETRY = RetryPolicy(attempts=6)
NOT_FOUND = 404


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as the registry has it; subject and version where they were asked by."""

    id: int
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Reference, ...] = ()
    subject: str | None = None
    version: int | None = None


class RegistryError(UserError):
    """The registry refused, or could not answer."""

    def __init__(self, message: str, status: int | None = None, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status."""
        self.code = code
        """Confluent's error code, as in 40401."""


class RegistryUnreachable(RegistryError):
    """Nobody answered, although tried for a while."""


class _NoneResponded(Exception):
    """No address gave a usable response this time; the cause is the last failure."""


class RegistryClient:
    """Talks to the registry at a URL, or at several separated by commas: if one is away, to the next."""

    def __init__(
        self,
        url: str,
        auth: tuple[str, str] | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        retries: RetryPolicy = RETRY,
    ) -> None:
        import httpx2

        self.urls = [one.strip().rstrip("/") for one in url.split(",") if one.strip()]
        if not self.urls or not all(one.startswith(("http://", "https://")) for one in self.urls):
            raise UserError(f"{url!r} is no http address of a schema registry.")
        headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._http: httpx2.Client = httpx2.Client(auth=auth, headers=headers, timeout=timeout_s)
        self._retries = retries
        self._lock = threading.Lock()
        self._by_id: dict[int, RegisteredSchema] = {}
        self._ids: dict[tuple[object, ...], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def register(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
        *,
        normalize: bool = False,
    ) -> int:
        """Make the schema a version of the subject, unless it is one already; its id."""
        return self._id_of("versions", subject, text, kind, references, normalize)

    def lookup(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
        *,
        normalize: bool = False,
    ) -> int | None:
        """The id of a schema that is a version of the subject; None if it is not."""
        try:
            return self._id_of("", subject, text, kind, references, normalize)
        except RegistryError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id."""
        with self._lock:
            known = self._by_id.get(schema_id)
        if known is None:
            known = _registered({"id": schema_id} | self.ask("GET", "schemas", "ids", schema_id))
            with self._lock:
                self._by_id[schema_id] = known
        return known

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject; asked anew each time, for it changes."""
        return self.version(subject, "latest")

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        """One version of a subject, by number or as `latest`."""
        return _registered(self.ask("GET", "subjects", subject, "versions", version))

    def compatible(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
        version: int | str | None = None,
    ) -> list[str]:
        """Why the schema may not follow what the subject has: no reason, it may."""
        path = ["compatibility", "subjects", subject, "versions"]
        answer = self.ask(
            "POST",
            *path,
            *([] if version is None else [version]),
            given=_request(text, kind, references),
            verbose="true",
        )
        if answer["is_compatible"]:
            return []
        return list(answer.get("messages") or ["The schemas are not compatible."])

    def ask(self, method: str, *path: str | int, given: Any = None, **query: str) -> Any:
        """Ask anything of the interface; a lost connection is tried again, a refusal is raised."""
        import httpx2

        where = "/" + "/".join(quote(str(part), safe="") for part in path)

        def ask_each() -> Any:
            reason: Exception | None = None
            for url in tuple(self.urls):
                try:
                    answer = self._http.request(method, url + where, json=given, params=query)
                except httpx2.TransportError as error:
                    reason = error
                    continue
                if answer.status_code < 300:
                    return answer.json()
                refused = _refusal(answer)
                if answer.status_code < 500:
                    raise refused
                reason = refused
            raise _NoneResponded from reason

        try:
            return retry(ask_each, self._retries, _NoneResponded)
        except _NoneResponded as failed:
            reason = failed.__cause__
        if isinstance(reason, RegistryError):
            raise reason
        raise RegistryUnreachable(
            f"No schema registry answers at {', '.join(self.urls)} ({reason}). "
            "Start one with: strom registry"
        ) from reason

    def _id_of(
        self,
        last: str,
        subject: str,
        text: str,
        kind: str,
        references: Sequence[tuple[str, str, int]],
        normalize: bool,
    ) -> int:
        key = (last, subject, text, str(kind), tuple(map(tuple, references)), normalize)
        with self._lock:
            known = self._ids.get(key)
        if known is None:
            path = ["subjects", subject, *([last] if last else [])]
            query = {"normalize": "true"} if normalize else {}
            answer = self.ask("POST", *path, given=_request(text, kind, references), **query)
            known = int(answer["id"])
            with self._lock:
                self._ids[key] = known
        return known


def _request(text: str, kind: str, references: Sequence[tuple[str, str, int]]) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": text, "schemaType": getattr(kind, "value", kind)}
    if references:
        body["references"] = [
            {"name": name, "subject": subject, "version": version}
            for name, subject, version in references
        ]
    return body


def _registered(answer: dict[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(
        id=answer["id"],
        kind=answer.get("schemaType") or "AVRO",
        text=answer["schema"],
        references=tuple(
            Reference(one["name"], one["subject"], one["version"])
            for one in answer.get("references") or ()
        ),
        subject=answer.get("subject"),
        version=answer.get("version"),
    )


def _refusal(answer: "httpx2.Response") -> RegistryError:
    try:
        told = answer.json()
        message, code = str(told["message"]), int(told["error_code"])
    except (ValueError, KeyError, TypeError):
        message, code = answer.text[:300] or answer.reason_phrase, answer.status_code
    return RegistryError(
        f"The schema registry refused: {message} ({code})", answer.status_code, code
    )
