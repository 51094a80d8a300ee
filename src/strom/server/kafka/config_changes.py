"""What AlterConfigs and IncrementalAlterConfigs share: many resources, each with its own result."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from strom.model.errors import ApiError, ErrorCode


class NamedResource(Protocol):
    """A resource in a request, such as a topic."""

    resource_type: int
    resource_name: str


class ChangeResult(Protocol):
    """What became of it."""

    error_code: int
    error_message: str | None


R = TypeVar("R", bound=NamedResource)
A = TypeVar("A", bound=ChangeResult)


async def change_each(
    resources: Sequence[R], change: Callable[[R], Awaitable[None]], answer: Callable[[R], A]
) -> list[A]:
    """Change one resource after another; one that is named twice is refused both times."""
    times = Counter((item.resource_type, item.resource_name) for item in resources)
    answers = []
    for resource in resources:
        result = answer(resource)
        result.error_message = None
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await change(resource)
        except ApiError as error:
            result.error_code = error.code
            result.error_message = error.message
        answers.append(result)
    return answers
