"""How a child process detects that its parent has ended, even by kill -9.

The parent holds the write end of the child's standard input, which the operating system closes when the
parent ends. Linux's PR_SET_PDEATHSIG would need no thread, but it exists nowhere else, it fires when the
*thread* that started the child ends, and it needs code between fork and exec.
"""

import os
import sys
import threading
import time
from collections.abc import Callable

LIFELINE = "--until-stdin-ends"
"""The hidden option by which a command ends with its parent."""
GRACE_S = 10.0


def end_with_parent(stop: Callable[[], None]) -> None:
    """In a child: call `stop` when the parent has ended, and exit at the latest GRACE_S later."""

    def watch() -> None:
        # Not sys.stdin: at exit, the interpreter aborts if a daemon thread holds its buffer's lock.
        while os.read(descriptor, 1024):
            pass
        try:
            stop()  # may raise BrokenPipeError: the parent's end of the output pipes is closed
            time.sleep(GRACE_S)
        finally:
            os._exit(1)

    descriptor = sys.stdin.fileno()
    threading.Thread(target=watch, name="lifeline", daemon=True).start()
