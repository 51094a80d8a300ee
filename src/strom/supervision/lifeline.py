"""How a child process notices that its parent is gone, even by kill -9.

The parent holds the writing end of the child's standard input, and the operating system closes it with
the parent, however that ends. Linux's PR_SET_PDEATHSIG would need no thread, but it exists nowhere else,
it fires when the *thread* that started the child ends, and it needs code between fork and exec.
"""

import os
import sys
import threading
import time
from collections.abc import Callable

LIFELINE = "--until-stdin-ends"
"""The hidden option of the commands that watch their parent."""
GRACE_S = 10.0


def end_with_parent(stop: Callable[[], None]) -> None:
    """For a child: call `stop` when the parent is gone, and exit in any case GRACE_S later."""

    def watch() -> None:
        # The descriptor, not sys.stdin: a thread inside its buffer's lock aborts the interpreter's exit.
        while os.read(descriptor, 1024):
            pass
        try:
            stop()  # may fail: whatever it logs goes to pipes that the parent has closed
            time.sleep(GRACE_S)
        finally:
            os._exit(1)

    descriptor = sys.stdin.fileno()
    threading.Thread(target=watch, name="lifeline", daemon=True).start()
