"""What a failure means for a run: retry, skip a record, set a view aside, or end.

Spark reports almost everything that goes wrong in its jobs by a condition and a SQLSTATE, which tell the
data's faults from the machines'.
"""

import re
from typing import Any, Literal

from strom.model.errors import StromError, UserError
from strom.pipelines.spark.preparing import EXPECTATION_FAILED
from strom.registry.client import RegistryError

Kind = Literal["transient", "data", "definition", "fatal"]
"""transient: the same attempt may succeed later (no Kafka, no space, a lost executor).
data: some record cannot be computed.
definition: the view cannot go on until it is changed or replayed; others can.
fatal: nothing can go on in this process."""

REASON_CHARACTERS = 500
_PASSING = frozenset({"cimpl.KafkaException", "_internal.DeltaError", "_duckdb.Error"})
"""Of libraries that need not be loaded for this: the first part of their modules, and their names."""
_OF_DATA = (
    "USER_RAISED_EXCEPTION",
    "FAILED_EXECUTE_UDF",
    "DUPLICATED_MAP_KEY",
    "COLLECTION_SIZE_LIMIT_EXCEEDED",
    "INVALID_FORMAT.MISMATCH_INPUT",
    "MALFORMED_",
    "_LEGACY_ERROR_TEMP_2176",  # more elements than an array can have
    "_LEGACY_ERROR_TEMP_3243",  # boundaries of `sequence`
)
"""Conditions of data whose SQLSTATE is not of class 22, or that have none."""
_JAVA_OF_DATA = re.compile(
    r"Caused by: (java\.lang\.(ArithmeticException|NumberFormatException|IllegalArgumentException)"
    r"|java\.time\.|java\.util\.\w*Format\w*Exception|java\.util\.regex\."
    r"|com\.fasterxml\.jackson\.core\.|org\.xml\.sax\.)"
)
"""What functions of Spark such as unbase64 and parse_json raise, without a condition."""
_PYTHON_OF_MACHINES = re.compile(
    r"(MemoryError|ImportError|ModuleNotFoundError|ConnectionError|Connection\w+Error|BrokenPipeError"
    r"|TimeoutError|BlockingIOError|InterruptedError|FileNotFoundError|PermissionError"
    r"|NotADirectoryError|IsADirectoryError|socket\.\w+|urllib\.error\.URLError"
    r"|requests\.exceptions\.\w*(Connection|Timeout)\w*)(:|$)"
    # EINVAL and EOVERFLOW are of values, as of times that the C library cannot represent.
    r"|OSError: \[Errno (?!22\]|75\])|.*PYTHON_VERSION_MISMATCH"
)
"""What a user's function raises where a worker lacks something that the next attempt may find."""
_STOPPED = ("stopped SparkContext", "SparkContext was shut down")


class Transient(UserError):
    """A failure that may be over later, such as a server that does not respond."""


def kind_of(error: BaseException) -> Kind:
    """The kind of a failure; what is not known is fatal, for it may be a defect of strom itself."""
    names = {f"{one.__module__.partition('.')[0]}.{one.__name__}" for one in type(error).__mro__}
    if "pyspark.PySparkException" in names:
        return _kind_of_spark(error)
    if "py4j.Py4JJavaError" in names:
        return "fatal" if _is_stopped(error) else _kind_of_java(error)
    if "py4j.Py4JError" in names or isinstance(error, ConnectionError):
        return "fatal"  # Spark's Java process has ended; all other connections have errors of their own
    if isinstance(error, UserError) and not isinstance(error, Transient | RegistryError):
        return "definition"
    if isinstance(error, OSError | MemoryError | StromError) or names & _PASSING:
        return "transient"
    return "fatal"


def plain_reason(error: BaseException) -> str:
    """What happened, in a line without stack traces or hints of Spark's."""
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


def _kind_of_spark(error: Any) -> Kind:
    condition, state = _condition(error), _state(error)
    if _is_stopped(error):
        return "fatal"
    if EXPECTATION_FAILED in str(error):
        return "definition"
    if condition.startswith("KAFKA_DATA_LOSS"):
        return (
            "transient"  # SQLSTATE 22000, but of the log: the next step looks what it still holds
        )
    if condition == "PYTHON_EXCEPTION":
        # The user's function failed on a record, unless the machine did.
        return "transient" if _PYTHON_OF_MACHINES.match(plain_reason(error)) else "data"
    if state.startswith("22") or condition.startswith(_OF_DATA):
        return "data"
    if condition == "PATH_NOT_FOUND":
        return "transient"
    # Class 42: names and types that are not there, as after a table's columns have changed.
    return "definition" if state.startswith("42") else "transient"


def _kind_of_java(error: BaseException) -> Kind:
    """The kind of an error without a condition, by its innermost cause."""
    causes = [line for line in str(error).splitlines() if line.startswith("Caused by: ")]
    return "data" if causes and _JAVA_OF_DATA.match(causes[-1]) else "transient"


def _python_error(text: str) -> str:
    """Type and message of the error that a Python worker's traceback ends with; a line of the message."""
    lines = [line for line in text.splitlines() if line.strip()]
    frames = [index for index, line in enumerate(lines) if line.startswith('  File "')]
    after = lines[frames[-1] + 1 :] if frames else lines[-1:]
    return next((line for line in after if not line.startswith(" ")), lines[-1]).strip()


def _is_stopped(error: BaseException) -> bool:
    return any(one in str(error) for one in _STOPPED)


def _condition(error: Any) -> str:
    return (error.getCondition() if hasattr(error, "getCondition") else None) or ""


def _state(error: Any) -> str:
    return (error.getSqlState() if hasattr(error, "getSqlState") else None) or ""
