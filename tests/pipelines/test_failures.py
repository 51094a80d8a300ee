"""What a failure means: retry, skip a record, set a view aside, or end."""

import errno

import duckdb
import pytest
from confluent_kafka import KafkaError, KafkaException
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    IllegalArgumentException,
    NumberFormatException,
    PySparkException,
    PythonException,
    SparkRuntimeException,
)

from strom.model.errors import StorageError, UserError
from strom.pipelines.definitions.place import DefinitionError
from strom.pipelines.failures import EXPECTATION_FAILED, REASON_CHARACTERS, classify, plain_reason
from strom.pipelines.kafka_log import KafkaUnavailable, LogTruncated
from strom.pipelines.layers.batch import ArchiveTooShort
from strom.pipelines.layers.dead_letters import DeadLettersRefused
from strom.pipelines.layers.skipping import ViewFailed
from strom.pipelines.views.manifests import ChainConflict
from strom.registry.client import RegistryUnreachable


def of_spark(kind, condition, state, text="it failed"):
    """An error as Spark's Java reports it, without Java."""

    error = kind(text)
    error.getCondition, error.getSqlState = lambda: condition, lambda: state
    return error


class FailedJob(Py4JJavaError):  # type: ignore[misc]
    """A failed job of Spark without a condition, without Java."""

    def __init__(self, *causes):
        Exception.__init__(self, *(f"Caused by: {cause}\n\tat a.b(C.java:1)" for cause in causes))

    def __str__(self):
        return "\n".join(["Job aborted due to stage failure", *self.args])


TRACE = (
    "An exception was thrown:\nTraceback (most recent call last):\n"
    '  File "/views.py", line 2, in score\n    return 1\n'
)
KINDS = [
    # The machines: the same may succeed later.
    (KafkaUnavailable("No Kafka broker responds at 127.0.0.1:9."), "transient"),
    (KafkaException(KafkaError(KafkaError._TRANSPORT)), "transient"),
    (DeadLettersRefused("the broker is full"), "transient"),
    (RegistryUnreachable("http://127.0.0.1:9 does not respond"), "transient"),
    (OSError(errno.ENOSPC, "No space left on device"), "transient"),
    (MemoryError(), "transient"),
    (ChainConflict("someone else was faster"), "transient"),
    (StorageError("a disk"), "transient"),
    (DeltaError("a commit failed"), "transient"),
    (duckdb.OutOfMemoryException("no memory"), "transient"),
    (of_spark(PySparkException, None, None, "Job aborted: executor lost"), "transient"),
    (of_spark(AnalysisException, "PATH_NOT_FOUND", "42K03"), "transient"),
    (of_spark(PySparkException, "FAILED_READ_FILE.FILE_NOT_EXIST", "KD001"), "transient"),
    (of_spark(PySparkException, "KAFKA_DATA_LOSS.COULD_NOT_READ", "22000"), "transient"),
    (of_spark(PythonException, "PYTHON_EXCEPTION", "38000", f"{TRACE}MemoryError"), "transient"),
    *(
        (
            of_spark(PythonException, "PYTHON_EXCEPTION", "38000", f"{TRACE}{text}"),
            "transient",
        )
        for text in (
            "OSError: [Errno 28] No space left on device",
            "ConnectionRefusedError: [Errno 111] Connection refused",
            "TimeoutError: timed out",
            "ModuleNotFoundError: No module named 'scoring'",
            "FileNotFoundError: [Errno 2] No such file or directory: 'model.bin'",
            "MemoryError: Unable to allocate\n4 GiB",
        )
    ),
    (FailedJob("java.io.EOFException"), "transient"),
    (FailedJob("java.lang.IllegalArgumentException: x", "java.io.EOFException"), "transient"),
    # A record.
    (FailedJob("java.lang.IllegalArgumentException: Last unit has not enough bits"), "data"),
    (FailedJob("java.util.regex.PatternSyntaxException: Unclosed group"), "data"),
    (FailedJob("com.fasterxml.jackson.core.JsonParseException: Unexpected character"), "data"),
    (of_spark(IllegalArgumentException, "INVALID_FORMAT.MISMATCH_INPUT", "42601"), "data"),
    (of_spark(IllegalArgumentException, "_LEGACY_ERROR_TEMP_3243", None), "data"),
    *(
        (of_spark(PythonException, "PYTHON_EXCEPTION", "38000", f"{TRACE}{text}"), "data")
        for text in (
            "gzip.BadGzipFile: Not a gzipped file (b'ab')",
            "OSError: [Errno 75] Value too large for defined data type",
            "ValueError: unexpected\nMemoryError",
        )
    ),
    (of_spark(NumberFormatException, "CAST_INVALID_INPUT", "22018"), "data"),
    (of_spark(ArithmeticException, "DIVIDE_BY_ZERO", "22012"), "data"),
    (of_spark(ArithmeticException, "ARITHMETIC_OVERFLOW", "22003"), "data"),
    (of_spark(SparkRuntimeException, "USER_RAISED_EXCEPTION", "P0001"), "data"),
    (of_spark(SparkRuntimeException, "DUPLICATED_MAP_KEY", "23505"), "data"),
    (of_spark(PythonException, "PYTHON_EXCEPTION", "38000", f"{TRACE}ValueError: x"), "data"),
    # The view.
    (DefinitionError(None, "no such column"), "definition"),
    (LogTruncated("records were deleted"), "definition"),
    (ArchiveTooShort("the archive begins later"), "definition"),
    (ViewFailed("more than 100 records"), "definition"),
    (UserError("no such view"), "definition"),
    (of_spark(AnalysisException, "UNRESOLVED_COLUMN", "42703"), "definition"),
    (
        of_spark(
            SparkRuntimeException,
            "USER_RAISED_EXCEPTION",
            "P0001",
            f"{EXPECTATION_FAILED}Expectation e does not hold. SQLSTATE: P0001",
        ),
        "definition",
    ),
    # The process.
    (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "fatal"),
    (Py4JNetworkError("Answer from Java side is empty"), "fatal"),
    (Py4JError("Target Object ID does not exist for this gateway"), "fatal"),
    (
        of_spark(PySparkException, None, None, "Cannot call methods on a stopped SparkContext."),
        "fatal",
    ),
    (KeyboardInterrupt(), "fatal"),
    (TypeError("a defect of strom"), "fatal"),
]


@pytest.mark.parametrize(("error", "kind"), KINDS, ids=lambda one: str(one)[:60])
def test_the_kind_of_a_failure(error, kind):
    assert classify(error) == kind


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            of_spark(
                NumberFormatException,
                "CAST_INVALID_INPUT",
                "22018",
                "The value 'n/a' cannot be cast. SQLSTATE: 22018\n== SQL ==\nx",
            ),
            "The value 'n/a' cannot be cast.",
        ),
        (
            of_spark(PythonException, "PYTHON_EXCEPTION", "38000", f"{TRACE}ValueError: bad"),
            "ValueError: bad",
        ),
        (
            of_spark(
                SparkRuntimeException,
                "USER_RAISED_EXCEPTION",
                "P0001",
                f"{EXPECTATION_FAILED}Expectation e does not hold. SQLSTATE: P0001",
            ),
            "Expectation e does not hold.",
        ),
        (UserError("in a line"), "in a line"),
        (OSError(errno.ENOSPC, "No space left on device"), "[Errno 28] No space left on device"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_reasons_are_plain(error, reason):
    assert plain_reason(error) == reason


def test_reasons_are_bounded():
    assert len(plain_reason(UserError("x" * 10_000))) == REASON_CHARACTERS
