"""What the registry refuses, with Confluent's error codes: clients go by the number, people by words."""

from typing import NoReturn

from strom.model.errors import UserError

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


class Refusal(UserError):
    """A request that is answered with an error code; the HTTP status is its first three digits."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code if self.code < 1000 else self.code // 100


def subject_not_found(subject: str) -> NoReturn:
    """No version of this subject."""
    raise Refusal(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> NoReturn:
    """The subject has no such version."""
    raise Refusal(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> NoReturn:
    """No schema has this id, or this content."""
    raise Refusal(40403, f"Schema {'' if schema_id is None else f'{schema_id} '}not found")


def subject_soft_deleted(subject: str) -> NoReturn:
    """Deleted already, but not for good."""
    raise Refusal(
        40404, f"Subject '{subject}' is deleted already. To delete it for good set permanent=true."
    )


def subject_not_soft_deleted(subject: str) -> NoReturn:
    """Nothing is deleted for good that was not deleted before."""
    raise Refusal(40405, f"Subject '{subject}' must be deleted before it is deleted for good.")


def version_soft_deleted(subject: str, version: int) -> NoReturn:
    """Deleted already, but not for good."""
    raise Refusal(
        40406,
        f"Version {version} of subject '{subject}' is deleted already. "
        "To delete it for good set permanent=true.",
    )


def version_not_soft_deleted(subject: str, version: int) -> NoReturn:
    """Nothing is deleted for good that was not deleted before."""
    raise Refusal(
        40407,
        f"Version {version} of subject '{subject}' must be deleted before it is deleted for good.",
    )


def no_own_compatibility(subject: str) -> NoReturn:
    """The subject has no compatibility of its own."""
    raise Refusal(40408, f"Subject '{subject}' has no compatibility of its own.")


def no_own_mode(subject: str) -> NoReturn:
    """The subject has no mode of its own."""
    raise Refusal(40409, f"Subject '{subject}' has no mode of its own.")


def incompatible(subject: str, reasons: list[str]) -> NoReturn:
    """The schema may not follow what the subject has."""
    raise Refusal(
        409,
        f"The schema does not fit the earlier ones of subject '{subject}': {'; '.join(reasons)}",
    )


def invalid_schema(reason: str) -> NoReturn:
    """The text is no schema."""
    raise Refusal(42201, reason)


def invalid_version(version: str) -> NoReturn:
    """What was given as a version is none."""
    raise Refusal(42202, f"'{version}' is no version: it must be 1 or more, or latest.")


def invalid_level() -> NoReturn:
    """There is no such compatibility."""
    raise Refusal(42203, f"There is no such compatibility: it is one of {', '.join(LEVELS)}.")


def invalid_mode() -> NoReturn:
    """There is no such mode."""
    raise Refusal(42204, f"There is no such mode: it is one of {', '.join(MODES)}.")


def not_permitted(reason: str) -> NoReturn:
    """The mode, or another id, stands against it."""
    raise Refusal(42205, reason)


def still_referenced(subject: str, version: int) -> NoReturn:
    """Other schemas need this one."""
    raise Refusal(42206, f"Other schemas refer to version {version} of subject '{subject}'.")


def invalid_subject(subject: str) -> NoReturn:
    """A name that no subject can have."""
    raise Refusal(42208, f"'{subject}' cannot be the name of a subject.")


def too_large() -> NoReturn:
    """The schema does not fit into a record."""
    raise Refusal(42209, "The schema is too large for a record of the topic.")


def store_failed(reason: str) -> NoReturn:
    """The topic cannot be read or written."""
    raise Refusal(50001, f"The topic of schemas cannot be used: {reason}")


def store_timed_out(reason: str) -> NoReturn:
    """The topic did not answer in time."""
    raise Refusal(50002, f"The topic of schemas did not answer in time: {reason}")
