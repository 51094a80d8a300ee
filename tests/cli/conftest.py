"""Running `strom` as its users do: in this process for most, as a program where that matters."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from click.testing import CliRunner, Result

from strom.cli.connection import SERVERS_VARIABLE
from strom.cli.program import program

Strom = Callable[..., Result]


@pytest.fixture
def strom() -> Strom:
    """Call `strom` without a broker."""

    def call(*arguments: str, stdin: bytes = b"", **variables: str) -> Result:
        result = CliRunner().invoke(
            program, list(arguments), input=stdin, env=variables, prog_name="strom"
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return result

    return call


@pytest.fixture
def strom_at_broker(strom: Strom, broker: Any) -> Strom:
    """Call `strom` with a broker to talk to."""

    def call(*arguments: str, stdin: bytes = b"") -> Result:
        return strom(*arguments, stdin=stdin, **{SERVERS_VARIABLE: broker.bootstrap_servers})

    return call


@pytest.fixture
def filled_topic(strom_at_broker: Strom, topic: str) -> str:
    """A topic with one partition that holds the values 0 to 9."""
    strom_at_broker("topics", "create", topic, "-p", "1")
    lines = "".join(f"{number}\n" for number in range(10)).encode()
    assert strom_at_broker("produce", topic, stdin=lines).exit_code == 0
    return topic


@pytest.fixture
def start_strom(broker: Any) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Start `strom` as a program of its own; whatever still runs in the end is ended."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Tests that run in the background ignore Ctrl-C, and would hand that on.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with ExitStack() as started:

        def start(*arguments: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
            process = subprocess.Popen(
                [sys.executable, "-m", "strom", *arguments],
                env=os.environ | {SERVERS_VARIABLE: broker.bootstrap_servers},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start
