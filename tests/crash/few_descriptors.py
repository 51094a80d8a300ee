"""`strom` in a process that may have 256 files open, as after `ulimit -n 256`.

SIGUSR1 makes it take all of them, and SIGUSR2 give them back.
"""

import os
import resource
import signal

from strom.cli import main

LIMIT = 256
taken: list[int] = []


def take_all(*_: object) -> None:
    while True:
        try:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return


def give_back(*_: object) -> None:
    while taken:
        os.close(taken.pop())


if __name__ == "__main__":
    # The hard limit too: a broker raises the soft one as far as it may.
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    signal.signal(signal.SIGUSR1, take_all)
    signal.signal(signal.SIGUSR2, give_back)
    main()
