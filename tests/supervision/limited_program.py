"""Functions that a test has called in a child process."""

import os
import resource
import signal

from strom.supervision.limited_calls import serve_calls


def turn_for_ever() -> None:
    while True:
        pass


def fail() -> None:
    raise ValueError("no such thing")


def take(size: int) -> int:
    return len(bytearray(size))


def die(name: str) -> None:
    number = getattr(signal, name)
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def memory_limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_AS)


def chatter(text: str) -> list[str]:
    print("something on standard output")
    return [text]


if __name__ == "__main__":
    serve_calls(
        {
            "turn_for_ever": turn_for_ever,
            "fail": fail,
            "take": take,
            "die": die,
            "wait": signal.pause,
            "memory_limits": memory_limits,
            "chatter": chatter,
            "pid": os.getpid,
            "abort": os.abort,
        }
    )
