"""The interface of a parsed schema, which every language implements, and the errors of all of them."""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import NamedTuple, Self

from strom.model.errors import UserError

MAX_CHARACTERS = 1_000_000
"""The limit on a schema's length: a longer one does not fit into a record of the topic."""
MAX_COMPARISONS = 200_000
"""The limit on compared pairs of types, which take a second or two."""


class SchemaType(StrEnum):
    """A schema language; the names are Confluent's schema types."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Reference(NamedTuple):
    """A name in a schema that denotes a version of another subject."""

    name: str
    subject: str
    version: int


class Referenced(NamedTuple):
    """The resolved target of a reference. What it refers to itself comes before it."""

    name: str
    text: str


class InvalidSchema(UserError):
    """The text is not a valid schema of its language; the message has the location and the reason."""


class TooLarge(Exception):
    """The comparison of two schemas exceeds its budget."""


class Budget:
    """Limits the steps of a comparison: small schemas may have very many pairs of types."""

    def __init__(self) -> None:
        self._left = MAX_COMPARISONS

    def spend(self, steps: int = 1) -> None:
        """Count steps; raises TooLarge when the budget is exhausted."""
        self._left -= steps
        if self._left < 0:
            raise TooLarge


class Problem(NamedTuple):
    """One reason why a reader cannot read data of a writer."""

    rule: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.path}: {self.text}"


class ParsedSchema(ABC):
    """A schema that has passed validation."""

    kind: SchemaType

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The text in one layout: schemas with equal canonical texts are the same schema."""

    @property
    @abstractmethod
    def normalized(self) -> str:
        """The canonical text in one order as well, for clients that request it."""

    @abstractmethod
    def differences(self, written: Self) -> list[Problem]:
        """Why data written with `written`, of the same type, cannot be read with this schema."""

    def problems_reading(self, written: "ParsedSchema") -> list[str]:
        """Why data written with `written` cannot be read with this schema; empty if it can."""
        if not isinstance(written, type(self)):
            return [
                f"The reader's schema is of type {self.kind}, the writer's of type {written.kind}."
            ]
        try:
            return [str(problem) for problem in self.differences(written)]
        except RecursionError:
            return ["The schemas are nested too deeply to be compared."]
        except TooLarge:
            return ["The schemas are too large to be compared."]
