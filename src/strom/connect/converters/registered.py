"""What converters that keep their schemas in a registry have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from strom.connect.api import (
    ConnectError,
    ConnectorSettings,
    Kind,
    PoisonRecord,
    RetriableError,
    setting,
)
from strom.connect.converters.contract import Converter
from strom.registry.client import (
    NotFramed,
    RegisteredSchema,
    RegistryClient,
    RegistryError,
    RegistryUnreachable,
    frame,
    unframe,
)

T = TypeVar("T")
_STRATEGIES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_STRATEGY_DOC = (
    "What the schema's subject is called: TopicNameStrategy (topic-value), RecordNameStrategy "
    "(the schema's own name) or TopicRecordNameStrategy (both)."
)


@dataclass(frozen=True, kw_only=True)
class RegistrySettings(ConnectorSettings):
    """Where the registry is, and what to keep there."""

    url: str = setting(
        "schema.registry.url",
        Kind.STRING,
        "The registry's address; several may be given with commas between.",
        required=True,
    )
    user_info: str | None = setting(
        "basic.auth.user.info", Kind.PASSWORD, "user:password for the registry."
    )
    credentials_source: str = setting(
        "basic.auth.credentials.source",
        Kind.STRING,
        "Where user and password come from; only USER_INFO is known here.",
        "USER_INFO",
        choices=("USER_INFO",),
    )
    token: str | None = setting(
        "bearer.auth.token", Kind.PASSWORD, "A token for the registry, instead of user:password."
    )
    auto_register: bool = setting(
        "auto.register.schemas",
        Kind.BOOLEAN,
        "Register schemas that the registry does not have.",
        True,
    )
    use_latest: bool = setting(
        "use.latest.version",
        Kind.BOOLEAN,
        "Write with the newest schema of the subject; only with auto.register.schemas=false.",
        False,
    )
    cache_size: int = setting(
        "schemas.cache.size", Kind.INT, "How many schemas to remember.", 1000, minimum=1
    )
    key_strategy: str = setting(
        "key.subject.name.strategy", Kind.STRING, f"For keys. {_STRATEGY_DOC}", _STRATEGIES[0]
    )
    value_strategy: str = setting(
        "value.subject.name.strategy", Kind.STRING, f"For values. {_STRATEGY_DOC}", _STRATEGIES[0]
    )

    def validate(self) -> dict[str, str]:
        """Strategies must be known, and the address one."""
        for name, given in (
            ("key.subject.name.strategy", self.key_strategy),
            ("value.subject.name.strategy", self.value_strategy),
        ):
            if given.rpartition(".")[2] not in _STRATEGIES:
                return {name: f"There is no strategy {given}; there are {', '.join(_STRATEGIES)}."}
        if not all(url.strip().startswith(("http://", "https://")) for url in self.url.split(",")):
            return {"schema.registry.url": f"{self.url} is no http address."}
        return {}


class RegisteredConverter(Converter):
    """Base of converters whose bytes begin with the id of a registered schema."""

    kind: str
    """What the registry calls this kind of schema."""

    def __init__(self, settings: RegistrySettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._opened: RegistryClient | None = None
        strategy = settings.key_strategy if is_key else settings.value_strategy
        self._strategy = strategy.rpartition(".")[2]

    @property
    def _registry(self) -> RegistryClient:
        """Opened when it is first needed: converters are also made to see whether they can be."""
        if self._opened is None:
            settings: RegistrySettings = self.settings
            user, _, password = (settings.user_info or "").partition(":")
            auth = (user, password) if settings.user_info else None
            self._opened = RegistryClient(settings.url, auth, token=settings.token)
        return self._opened

    def close(self) -> None:
        """Close the connections to the registry."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def subject(self, topic: str, schema_name: str | None) -> str:
        """What the schema of a topic's records goes by in the registry."""
        if self._strategy == "TopicNameStrategy":
            return f"{topic}-{'key' if self.is_key else 'value'}"
        if schema_name is None:
            raise PoisonRecord(f"The {self._strategy} needs schemas with a name.")
        if self._strategy == "RecordNameStrategy":
            return schema_name
        return f"{topic}-{schema_name}"

    def schema_to_write(self, subject: str, text: str) -> RegisteredSchema:
        """The schema to write records of this subject with, and its id."""
        settings: RegistrySettings = self.settings
        if settings.use_latest:
            return self._asked(lambda: self._registry.latest(subject))
        if settings.auto_register:
            found = self._asked(lambda: self._registry.register(subject, text, self.kind))
            return RegisteredSchema(found, self.kind, text)
        looked_up = self._asked(lambda: self._registry.lookup(subject, text, self.kind))
        if looked_up is None:
            raise PoisonRecord(
                f"The subject {subject} does not have the record's schema, and "
                "auto.register.schemas is off."
            )
        return RegisteredSchema(looked_up, self.kind, text)

    def schema_of_id(self, schema_id: int) -> RegisteredSchema:
        """The schema that a record was written with."""
        found = self._asked(lambda: self._registry.schema(schema_id))
        if found.kind != self.kind:
            raise PoisonRecord(f"Schema {schema_id} is {found.kind}, not {self.kind}.")
        return found

    def referenced(self, schema: RegisteredSchema) -> list[tuple[str, str]]:
        """Everything a schema builds on, the deepest first: name and text."""
        found: dict[str, str] = {}
        for reference in schema.references:
            inner = self._asked(
                lambda one=reference: self._registry.version(one.subject, one.version)  # type: ignore[misc]
            )
            found.update(self.referenced(inner))
            found[reference.name] = inner.text
        return list(found.items())

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except RegistryUnreachable as error:
            raise RetriableError(str(error)) from error
        except RegistryError as error:
            if error.status is not None and error.status >= 500:
                raise RetriableError(str(error)) from error
            if error.status in (401, 403):
                raise ConnectError(str(error)) from error
            raise PoisonRecord(str(error)) from error


def framed(schema_id: int, payload: bytes) -> bytes:
    """The payload behind its schema's id."""
    return frame(schema_id, payload)


def unframed(data: bytes) -> tuple[int, bytes]:
    """The schema's id and the payload; PoisonRecord for bytes of another kind."""
    try:
        return unframe(data)
    except NotFramed as error:
        raise PoisonRecord(str(error)) from error


def named_by(schema: Any) -> str | None:
    """The name of a schema, for subjects that go by it."""
    name: str | None = schema.name
    return name
