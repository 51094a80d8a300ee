"""A client of a schema registry: strom's, Confluent's, or any other with the same REST interface.

Synchronous and thread-safe. It caches ids: an id denotes one schema for ever, so a producer or consumer
sends one request per schema.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
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
    """A schema as the registry stores it; `subject` and `version` are set if it was looked up by them."""

    id: int
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Reference, ...] = ()
    subject: str | None = None
    version: int | None = None


class RegistryError(UserError):
    """The registry rejected the request, or failed to process it."""

    def __init__(self, message: str, status: int | None = None, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status."""
        self.code = code
        """Confluent's error code, as in 40401."""


class RegistryUnreachable(RegistryError):
    """No registry responded, after all retries."""


class _NoneResponded(Exception):
    """No address gave a usable response this time; the cause is the last failure."""


class RegistryClient:
    """A client of the registry at a URL, or at several, separated by commas, which are tried in order."""

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
            raise UserError(f"Invalid URL of a schema registry: {url!r}. Use http:// or https://.")
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
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
        """Register the schema as a version of the subject, unless it is one already; returns its id."""
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
        """The id of a schema that is registered under the subject; None if it is not."""
        try:
            return self._id_of("", subject, text, kind, references, normalize)
        except RegistryError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id, from the cache after the first request."""
        with self._lock:
            known = self._by_id.get(schema_id)
        if known is None:
            known = _to_registered_schema(
                {"id": schema_id} | self.ask("GET", "schemas", "ids", schema_id)
            )
            with self._lock:
                self._by_id[schema_id] = known
        return known

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject; never cached, because it changes."""
        return self.version(subject, "latest")

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        """One version of a subject, by its number or `latest`."""
        return _to_registered_schema(self.ask("GET", "subjects", subject, "versions", version))

    def compatible(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
        version: int | str | None = None,
    ) -> list[str]:
        """Why the schema is incompatible with the subject's versions.

        An empty list if it is compatible.
        """
        path = ["compatibility", "subjects", subject, "versions"]
        response = self.ask(
            "POST",
            *path,
            *([] if version is None else [version]),
            given=_request(text, kind, references),
            verbose="true",
        )
        if response["is_compatible"]:
            return []
        return list(response.get("messages") or ["The schemas are not compatible."])

    def ask(self, method: str, *path: str | int, given: Any = None, **query: str) -> Any:
        """Send any request of the REST interface.

        Retries lost connections and 5xx, raises every other error.
        """
        import httpx2

        where = "/" + "/".join(quote(str(part), safe="") for part in path)

        def ask_each() -> Any:
            reason: Exception | None = None
            for url in tuple(self.urls):
                try:
                    response = self._http.request(method, url + where, json=given, params=query)
                except httpx2.TransportError as error:
                    reason = error
                    continue
                if response.status_code < 300:
                    return response.json()
                failure = _registry_error(response)
                if response.status_code < 500:
                    raise failure
                reason = failure
            raise _NoneResponded from reason

        try:
            return retry(ask_each, self._retries, _NoneResponded)
        except _NoneResponded as failed:
            reason = failed.__cause__
        if isinstance(reason, RegistryError):
            raise reason
        raise RegistryUnreachable(
            f"No schema registry responds at {', '.join(self.urls)} ({reason}). "
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
            response = self.ask("POST", *path, given=_request(text, kind, references), **query)
            known = int(response["id"])
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


def _to_registered_schema(response: dict[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(
        id=response["id"],
        kind=response.get("schemaType") or "AVRO",
        text=response["schema"],
        references=tuple(
            Reference(one["name"], one["subject"], one["version"])
            for one in response.get("references") or ()
        ),
        subject=response.get("subject"),
        version=response.get("version"),
    )


def _registry_error(response: "httpx2.Response") -> RegistryError:
    try:
        body = response.json()
        message, code = str(body["message"]), int(body["error_code"])
    except (ValueError, KeyError, TypeError):
        message, code = response.text[:300] or response.reason_phrase, response.status_code
    return RegistryError(
        f"The schema registry responded: {message} ({code})", response.status_code, code
    )
