"""Functions that a test has called in a child process."""

import os
import signal

from strom.supervision.limited_calls import serve_calls


def turn_for_ever() -> None:
    while True:
        pass


def fail() -> None:
    raise ValueError("no such thing")


def take(size: int) -> int:
    return len(bytearray(size))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


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
            "chatter": chatter,
            "pid": os.getpid,
            "abort": os.abort,
        }
    )
