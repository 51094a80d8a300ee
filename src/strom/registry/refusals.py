"""The registry's errors, with Confluent's codes and texts: clients depend on both."""

from typing import NoReturn

from strom.model.errors import UserError
from strom.registry.formats.schema import Reference

CONTEXT = ":.:"
"""The default context, the only one here."""
UNAVAILABLE = 503
"""The code of a temporary shortage."""
INVALID_SCHEMA = 42201
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
        f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> NoReturn:
    raise RestError(
        40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> NoReturn:
    raise RestError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted."
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> NoReturn:
    raise RestError(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted",
    )


def no_own_compatibility(subject: str) -> NoReturn:
    raise RestError(
        40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_own_mode(subject: str) -> NoReturn:
    raise RestError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, reasons: list[str]) -> NoReturn:
    raise RestError(
        409,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{", ".join(reasons)}]',
    )


def invalid_schema(reason: str) -> NoReturn:
    raise RestError(INVALID_SCHEMA, reason)


def reference_not_found(reference: Reference) -> NoReturn:
    invalid_schema(
        f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
    )


def invalid_version(version: str) -> NoReturn:
    raise RestError(
        42202,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> NoReturn:
    raise RestError(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> NoReturn:
    raise RestError(42204, f"Invalid mode. Valid values are {', '.join(MODES)}.")


def not_permitted(reason: str) -> NoReturn:
    raise RestError(42205, reason)


def read_only(subject: str) -> NoReturn:
    not_permitted(f"Subject {subject} in context {CONTEXT} is in read-only mode")


def still_referenced(subject: str, version: int) -> NoReturn:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    raise RestError(42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> NoReturn:
    raise RestError(42208, f"The specified subject '{subject}' is not a valid.")


def too_large() -> NoReturn:
    raise RestError(42209, "Register operation failed because schema is too large")


def store_failed(reason: str) -> NoReturn:
    raise RestError(50001, f"The topic _schemas is not available: {reason}")


def store_timed_out(reason: str) -> NoReturn:
    raise RestError(50002, f"Timed out on the topic _schemas: {reason}")
