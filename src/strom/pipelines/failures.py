"""Classifies failures: retry, skip a record, set a view aside, or stop.

Spark reports most errors of its jobs with an error condition and a SQLSTATE, which separate errors in the
data from those of the environment.
"""

import re
from typing import Any, Literal

from strom.model.errors import StromError, UserError
from strom.registry.client import RegistryError

FailureKind = Literal["transient", "data", "definition", "fatal"]
"""transient: a retry may succeed (no Kafka, no disk space, a lost executor).
data: a record cannot be processed.
definition: the view stops until it is changed or replayed; others continue.
fatal: the process must stop."""

VIEW_FAILURES = frozenset({"data", "definition"})
"""Failures that affect one view only."""
EXPECTATION_FAILED = "not as expected: "
"""The prefix of a failed expectation's message, to find it in Spark's error."""
REASON_CHARACTERS = 500
_TRANSIENT_TYPES = frozenset({"cimpl.KafkaException", "_internal.DeltaError", "_duckdb.Error"})
"""Exceptions by top-level module and name, without importing their libraries."""
_DATA_CONDITIONS = (
    "USER_RAISED_EXCEPTION",
    "FAILED_EXECUTE_UDF",
    "DUPLICATED_MAP_KEY",
    "COLLECTION_SIZE_LIMIT_EXCEEDED",
    "INVALID_FORMAT.MISMATCH_INPUT",
    "MALFORMED_",
    "_LEGACY_ERROR_TEMP_2176",  # more elements than an array can have
    "_LEGACY_ERROR_TEMP_3243",  # invalid bounds of `sequence`
)
"""Error conditions of data without a SQLSTATE of class 22 (data exception)."""
_JAVA_DATA_ERRORS = re.compile(
    r"Caused by: (java\.lang\.(ArithmeticException|NumberFormatException|IllegalArgumentException)"
    r"|java\.time\.|java\.util\.\w*Format\w*Exception|java\.util\.regex\."
    r"|com\.fasterxml\.jackson\.core\.|org\.xml\.sax\.)"
)
"""Raised by functions of Spark such as unbase64 and parse_json, without an error condition."""
_PYTHON_ENVIRONMENT_ERRORS = re.compile(
    r"(MemoryError|ImportError|ModuleNotFoundError|ConnectionError|Connection\w+Error|BrokenPipeError"
    r"|TimeoutError|BlockingIOError|InterruptedError|FileNotFoundError|PermissionError"
    r"|NotADirectoryError|IsADirectoryError|socket\.\w+|urllib\.error\.URLError"
    r"|requests\.exceptions\.\w*(Connection|Timeout)\w*)(:|$)"
    # EINVAL and EOVERFLOW are errors in data, such as times that the C library cannot represent.
    r"|OSError: \[Errno (?!22\]|75\])|.*PYTHON_VERSION_MISMATCH"
)
"""Raised in a user's function because of the worker's environment: a retry may succeed."""
_STOPPED_MESSAGES = ("stopped SparkContext", "SparkContext was shut down")


class TransientError(UserError):
    """A failure that a retry may resolve, such as a server that does not respond."""


def classify(error: BaseException) -> FailureKind:
    """Classify a failure. An unknown one is fatal, since it may be a bug in strom."""
    names = {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(error).__mro__}
    if "pyspark.PySparkException" in names:
        return _classify_spark(error)
    if "py4j.Py4JJavaError" in names:
        return "fatal" if _is_stopped(error) else _classify_java(error)
    if "py4j.Py4JError" in names or isinstance(error, ConnectionError):
        return "fatal"  # Spark's JVM has exited; other connections raise errors of their own
    if isinstance(error, UserError) and not isinstance(error, TransientError | RegistryError):
        return "definition"
    if isinstance(error, OSError | MemoryError | StromError) or names & _TRANSIENT_TYPES:
        return "transient"
    return "fatal"


def plain_reason(error: BaseException) -> str:
    """The message of a failure in one line, without Spark's stack traces and hints."""
    text = str(error).strip()
    if isinstance(error, StromError):
        return text[:REASON_CHARACTERS]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if EXPECTATION_FAILED in line:
            reason = line.partition(EXPECTATION_FAILED)[2].partition(" SQLSTATE")[0]
            return reason[:REASON_CHARACTERS]
    if not lines:
        return type(error).__name__
    if _condition(error) == "PYTHON_EXCEPTION":
        return _python_error(text)[:REASON_CHARACTERS]
    cause = next((line for line in reversed(lines) if line.startswith("Caused by")), None)
    first = cause or lines[0]
    first = re.sub(r"^\[[A-Z_.0-9]+\] ", "", first).partition(" SQLSTATE")[0]
    return first[:REASON_CHARACTERS]


def _classify_spark(error: Any) -> FailureKind:
    condition, state = _condition(error), _state(error)
    if _is_stopped(error):
        return "fatal"
    if EXPECTATION_FAILED in str(error):
        return "definition"
    if condition.startswith("KAFKA_DATA_LOSS"):
        return "transient"  # SQLSTATE 22000, but not of the data: the next step checks the log's offsets
    if condition == "PYTHON_EXCEPTION":
        # The user's function failed on a record, unless its environment is the cause.
        return "transient" if _PYTHON_ENVIRONMENT_ERRORS.match(plain_reason(error)) else "data"
    if state.startswith("22") or condition.startswith(_DATA_CONDITIONS):
        return "data"
    if condition == "PATH_NOT_FOUND":
        return "transient"
    # Class 42: unknown names and types, such as after a change of a table's columns.
    return "definition" if state.startswith("42") else "transient"


def _classify_java(error: BaseException) -> FailureKind:
    """Classify an error without an error condition by its root cause."""
    causes = [line for line in str(error).splitlines() if line.startswith("Caused by: ")]
    return "data" if causes and _JAVA_DATA_ERRORS.match(causes[-1]) else "transient"


def _python_error(text: str) -> str:
    """The type and the first line of the message of a Python worker's error, from its traceback."""
    lines = [line for line in text.splitlines() if line.strip()]
    frames = [index for index, line in enumerate(lines) if line.startswith('  File "')]
    after = lines[frames[-1] + 1 :] if frames else lines[-1:]
    return next((line for line in after if not line.startswith(" ")), lines[-1]).strip()


def _is_stopped(error: BaseException) -> bool:
    return any(one in str(error) for one in _STOPPED_MESSAGES)


def _condition(error: Any) -> str:
    return (error.getCondition() if hasattr(error, "getCondition") else None) or ""


def _state(error: Any) -> str:
    return (error.getSqlState() if hasattr(error, "getSqlState") else None) or ""
