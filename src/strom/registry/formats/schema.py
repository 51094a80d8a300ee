"""What every schema language offers to the registry, and what goes wrong in all of them."""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import NamedTuple, Self

from strom.model.errors import UserError

MAX_CHARACTERS = 1_000_000
"""A longer schema would not fit into one record of the registry's topic."""
MAX_COMPARISONS = 200_000
"""How many pairs of types are looked at, a second or two long, before two schemas are too large."""


class Kind(StrEnum):
    """A schema language, spelled as Confluent's interface spells it."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Reference(NamedTuple):
    """A schema's word that a name in it means a version of another subject."""

    name: str
    subject: str
    version: int


class Referenced(NamedTuple):
    """What a reference stands for, with what that text refers to in turn."""

    name: str
    text: str
    references: tuple["Referenced", ...] = ()


class InvalidSchema(UserError):
    """A text that is no schema of its language; says where and why."""


class TooLarge(Exception):
    """Two schemas would take too long to be compared."""


class Budget:
    """Counts the steps of a comparison: two small schemas may have very many pairs of types."""

    def __init__(self) -> None:
        self._left = MAX_COMPARISONS

    def spend(self) -> None:
        """Count one more step, or raise TooLarge."""
        self._left -= 1
        if self._left < 0:
            raise TooLarge


class Problem(NamedTuple):
    """One reason why a reader cannot read what a writer wrote."""

    rule: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.path}: {self.text}"


class Parsed(ABC):
    """A schema that is known to be valid."""

    kind: Kind

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The text without accidents of layout: schemas with equal ones are the same schema."""

    @property
    @abstractmethod
    def normalized(self) -> str:
        """The text without accidents of order as well, for those who ask for it."""

    @abstractmethod
    def differences(self, written: Self) -> list[Problem]:
        """Tell why data written with `written`, of the same kind, cannot be read with this."""

    def problems_reading(self, written: "Parsed") -> list[str]:
        """Tell in plain words why data written with `written` cannot be read with this.

        None means that all of it can be read.
        """
        if not isinstance(written, type(self)):
            return [
                f"The reader is a schema of type {self.kind}, the writer one of {written.kind}."
            ]
        try:
            return [str(problem) for problem in self.differences(written)]
        except RecursionError:
            return ["The schemas are nested too deeply to be compared."]
        except TooLarge:
            return ["The schemas are too large to be compared."]
