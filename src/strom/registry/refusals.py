"""The registry's errors, with Confluent's error codes: clients depend on the codes."""

from typing import NoReturn

from strom.model.errors import UserError
from strom.registry.compatibility import CompatibilityLevel

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


class RestError(UserError):
    """A request that fails with an error code; its first three digits are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100


def subject_not_found(subject: str) -> NoReturn:
    raise RestError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> NoReturn:
    raise RestError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> NoReturn:
    raise RestError(40403, f"Schema {'' if schema_id is None else f'{schema_id} '}not found")


def subject_soft_deleted(subject: str) -> NoReturn:
    raise RestError(
        40404,
        f"Subject '{subject}' is soft-deleted already. To delete it permanently, set permanent=true.",
    )


def subject_not_soft_deleted(subject: str) -> NoReturn:
    raise RestError(40405, f"Subject '{subject}' must be soft-deleted before permanent deletion.")


def version_soft_deleted(subject: str, version: int) -> NoReturn:
    raise RestError(
        40406,
        f"Version {version} of subject '{subject}' is soft-deleted already. "
        "To delete it permanently, set permanent=true.",
    )


def version_not_soft_deleted(subject: str, version: int) -> NoReturn:
    raise RestError(
        40407,
        f"Version {version} of subject '{subject}' must be soft-deleted before permanent deletion.",
    )


def no_own_compatibility(subject: str) -> NoReturn:
    raise RestError(40408, f"Subject '{subject}' has no compatibility configured.")


def no_own_mode(subject: str) -> NoReturn:
    raise RestError(40409, f"Subject '{subject}' has no mode configured.")


def incompatible(subject: str, reasons: list[str]) -> NoReturn:
    raise RestError(
        409,
        f"The schema is incompatible with earlier versions of subject '{subject}': {'; '.join(reasons)}",
    )


def invalid_schema(reason: str) -> NoReturn:
    raise RestError(42201, reason)


def invalid_version(version: str) -> NoReturn:
    raise RestError(42202, f"Invalid version '{version}': use a number from 1, or latest.")


def invalid_level() -> NoReturn:
    raise RestError(
        42203, f"Invalid compatibility level: use one of {', '.join(CompatibilityLevel)}."
    )


def invalid_mode() -> NoReturn:
    raise RestError(42204, f"Invalid mode: use one of {', '.join(MODES)}.")


def not_permitted(reason: str) -> NoReturn:
    raise RestError(42205, reason)


def still_referenced(subject: str, version: int) -> NoReturn:
    raise RestError(42206, f"Other schemas refer to version {version} of subject '{subject}'.")


def invalid_subject(subject: str) -> NoReturn:
    raise RestError(42208, f"Invalid subject name '{subject}'.")


def too_large() -> NoReturn:
    raise RestError(42209, "The schema exceeds the maximum record size of the topic _schemas.")


def store_failed(reason: str) -> NoReturn:
    raise RestError(50001, f"The topic _schemas is not available: {reason}")


def store_timed_out(reason: str) -> NoReturn:
    raise RestError(50002, f"Timed out on the topic _schemas: {reason}")
