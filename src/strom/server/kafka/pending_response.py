"""A response that waits for something: for a flush, for other members of a group, for new records."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

T_co = TypeVar("T_co", covariant=True)


class PendingResponse(NamedTuple, Generic[T_co]):
    """A future, and the function that converts its result to a response: a value, or bytes.

    A coroutine would do for a handler; this saves frequent requests the cost of a task.
    """

    result: asyncio.Future[Any]
    convert: Callable[[Any], T_co]

    def abandon(self) -> None:
        """Cancel the future of a disconnected client. A task runs on: it may be amid a change."""
        if not isinstance(self.result, asyncio.Task):
            self.result.cancel()
