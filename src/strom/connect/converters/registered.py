"""The base of all converters with schemas in a registry."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from strom.connect.api import (
    ConnectError,
    ConnectorSettings,
    PoisonRecord,
    RetriableError,
    Schema,
)
from strom.connect.converters.contract import Converter, cache_size_setting
from strom.connect.setting_forms import boolean, choice, secret, string
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
    "How the subject is named: TopicNameStrategy (topic-value), RecordNameStrategy "
    "(the schema's name) or TopicRecordNameStrategy (topic-schema's name)."
)


@dataclass(frozen=True, kw_only=True)
class RegistrySettings(ConnectorSettings):
    """How to connect to the registry, and which schemas to register."""

    url: str = string(
        "schema.registry.url", "The registry's URL; several are separated by commas.", required=True
    )
    user_info: str | None = secret("basic.auth.user.info", "user:password for the registry.")
    credentials_source: str = choice(
        "basic.auth.credentials.source",
        "Where user and password come from; only USER_INFO is supported.",
        ("USER_INFO",),
    )
    token: str | None = secret(
        "bearer.auth.token", "A token for the registry, instead of user:password."
    )
    auto_register: bool = boolean(
        "auto.register.schemas", "Register schemas that the subject does not have.", True
    )
    use_latest: bool = boolean(
        "use.latest.version",
        "Write with the latest schema of the subject; needs auto.register.schemas=false.",
    )
    cache_size: int = cache_size_setting()
    key_strategy: str = string(
        "key.subject.name.strategy", f"For keys. {_STRATEGY_DOC}", _STRATEGIES[0]
    )
    value_strategy: str = string(
        "value.subject.name.strategy", f"For values. {_STRATEGY_DOC}", _STRATEGIES[0]
    )

    def validate(self) -> dict[str, str]:
        for name, given in (
            ("key.subject.name.strategy", self.key_strategy),
            ("value.subject.name.strategy", self.value_strategy),
        ):
            if given.rpartition(".")[2] not in _STRATEGIES:
                return {name: f"Unknown strategy {given}; use one of {', '.join(_STRATEGIES)}."}
        if not all(url.strip().startswith(("http://", "https://")) for url in self.url.split(",")):
            return {"schema.registry.url": f"Invalid URL {self.url}; use http:// or https://."}
        return {}


class _Writer(NamedTuple):
    """How to write values of one schema to one topic."""

    schema: Schema
    """Kept alive, because its id() is the key."""
    schema_id: int
    write: Callable[[Any], bytes]


class RegisteredReader(NamedTuple):
    """How to read the data of one registered schema."""

    schema: Schema
    read: Callable[[bytes], Any]


class RegisteredConverter(Converter):
    """Base class of converters whose data starts with the id of a registered schema."""

    kind: ClassVar[str]
    """The schema type in the registry."""
    language: ClassVar[str]
    """The schema language, for messages."""

    def __init__(self, settings: RegistrySettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._opened: RegistryClient | None = None
        self._writers: dict[tuple[str, int], _Writer] = {}
        self._readers: dict[tuple[int, tuple[int, ...]], RegisteredReader] = {}
        strategy = settings.key_strategy if is_key else settings.value_strategy
        self._strategy = strategy.rpartition(".")[2]

    @property
    def _registry(self) -> RegistryClient:
        """Created on first use: converters are also created just to validate a configuration."""
        if self._opened is None:
            settings: RegistrySettings = self.settings
            user, _, password = (settings.user_info or "").partition(":")
            auth = (user, password) if settings.user_info else None
            self._opened = RegistryClient(settings.url, auth, token=settings.token)
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @abstractmethod
    def schema_text(self, schema: Schema) -> str:
        """The schema as it is registered."""

    @abstractmethod
    def make_writer(self, schema: Schema, registered: RegisteredSchema) -> Callable[[Any], bytes]:
        """A function that writes values of a schema as data of a registered one."""

    @abstractmethod
    def make_reader(self, registered: RegisteredSchema, place: tuple[int, ...]) -> RegisteredReader:
        """A reader of data of a registered schema, for the type at this place in it."""

    def schema_of(self, value: Any) -> Schema:
        """The schema to write a schemaless value with."""
        raise PoisonRecord(
            f"{self.language} needs values with a schema; use the JsonConverter for schemaless values."
        )

    def split(self, payload: bytes) -> tuple[tuple[int, ...], bytes]:
        """The place of the data's type in its schema, and the data itself."""
        return (), payload

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            schema = self.schema_of(value)
        writer = self._writers.get((topic, id(schema)))
        if writer is None:
            text = self.schema_text(schema)
            registered = self.schema_to_write(self.subject(topic, schema.name), text)
            writer = _Writer(schema, registered.id, self.make_writer(schema, registered))
            if len(self._writers) >= self.settings.cache_size:
                self._writers.clear()
            self._writers[topic, id(schema)] = writer
        return frame(writer.schema_id, writer.write(value))

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The value, and the schema that it was written with."""
        if data is None:
            return None, None
        try:
            schema_id, framed = unframe(data)
            place, payload = self.split(framed)
        except NotFramed as error:
            raise PoisonRecord(str(error)) from error
        reader = self._readers.get((schema_id, place))
        if reader is None:
            reader = self.make_reader(self.schema_of_id(schema_id), place)
            self._readers[schema_id, place] = reader
        return reader.schema, reader.read(payload)

    def subject(self, topic: str, schema_name: str | None) -> str:
        """The subject of a topic's schema."""
        if self._strategy == "TopicNameStrategy":
            return f"{topic}-{'key' if self.is_key else 'value'}"
        if schema_name is None:
            raise PoisonRecord(f"The {self._strategy} needs schemas that have a name.")
        if self._strategy == "RecordNameStrategy":
            return schema_name
        return f"{topic}-{schema_name}"

    def schema_to_write(self, subject: str, text: str) -> RegisteredSchema:
        """The registered schema to write records of this subject with."""
        settings: RegistrySettings = self.settings
        if settings.use_latest:
            return self._asked(lambda: self._registry.latest(subject))
        if settings.auto_register:
            found = self._asked(lambda: self._registry.register(subject, text, self.kind))
            return RegisteredSchema(found, self.kind, text)
        looked_up = self._asked(lambda: self._registry.lookup(subject, text, self.kind))
        if looked_up is None:
            raise PoisonRecord(
                f"The subject {subject} does not have the record's schema. Register it, or set "
                "auto.register.schemas=true."
            )
        return RegisteredSchema(looked_up, self.kind, text)

    def schema_of_id(self, schema_id: int) -> RegisteredSchema:
        """The schema that a record was written with."""
        found = self._asked(lambda: self._registry.schema(schema_id))
        if found.kind != self.kind:
            raise PoisonRecord(f"Schema {schema_id} is {found.kind}, not {self.kind}.")
        return found

    def referenced(self, schema: RegisteredSchema) -> list[tuple[str, str]]:
        """All direct and indirect references of a schema as (name, text), in dependency order."""
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
