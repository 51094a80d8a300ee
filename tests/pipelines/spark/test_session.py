"""Starting Spark: what a user gets to read if that fails."""

import socket

import pytest

from strom.model.errors import UserError
from strom.pipelines.spark.session import _check_masters, _summary, start_session
from tools.kafka import free_port


@pytest.mark.parametrize(
    "address", ["127.0.0.1:{port}", "127.0.0.1", "127.0.0.1:x", "[::1]:{port}"]
)
def test_a_spark_master_that_does_not_listen_is_reported_before_spark_starts(address):
    master = "spark://" + address.format(port=free_port())
    with pytest.raises(UserError) as caught:
        start_session(master)
    assert str(caught.value).startswith(f"No Spark master accepts connections at {master}. ")


def test_one_of_several_masters_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        _check_masters(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (
            "An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.\n"
            ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n"
            "\tat org.apache.spark.SparkContext.assertNotStopped(SparkContext.scala:128)\n",
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited.\nMore.",
            "[JAVA_GATEWAY_EXITED] Java gateway process exited.",
        ),
        ("", "RuntimeError"),
    ],
)
def test_an_error_of_spark_is_one_line(text, summary):
    assert _summary(RuntimeError(text)) == summary
