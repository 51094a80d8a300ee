"""What AlterConfigs and IncrementalAlterConfigs share: many resources, each with its own result."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from strom.model.errors import ApiError, ErrorCode
from strom.server.kafka.long_work import Pauses
from strom.wire.kafka.messages.k33_alter_configs import AlterConfigsResourceResponse


class NamedResource(Protocol):
    """A resource in a request, such as a topic."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=NamedResource)


async def change_each(
    resources: Sequence[R], change: Callable[[R], Awaitable[None]], pause: Pauses
) -> list[AlterConfigsResourceResponse]:
    """Change one resource after another; one that is named twice is refused both times."""
    times: Counter[tuple[int, str]] = Counter()
    for resource in resources:
        await pause()
        times[resource.resource_type, resource.resource_name] += 1
    results = []
    for resource in resources:
        await pause()
        kind, name = resource.resource_type, resource.resource_name
        result = AlterConfigsResourceResponse(
            resource_type=kind, resource_name=name, error_message=None
        )
        try:
            if times[kind, name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await change(resource)
        except ApiError as error:
            result.error_code = error.code
            result.error_message = error.message
        results.append(result)
    return results
