"""Validation of heartbeats, with Kafka's messages, before the group is looked up."""

from collections.abc import Sequence

from strom.coordination.groups.consumer.commands import NO_TIMEOUT, ConsumerHeartbeat
from strom.coordination.groups.consumer.records import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from strom.model.errors import ApiError, ErrorCode


def check_request(command: ConsumerHeartbeat, assignors: Sequence[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for an invalid heartbeat."""
    is_known = command.epoch > JOIN_EPOCH or command.epoch == LEAVE_EPOCH
    if not command.member and (command.requires_id or is_known):
        raise _invalid("MemberId can't be empty.")
    for name, text in (("InstanceId", command.instance), ("RackId", command.rack)):
        if text == "":
            raise _invalid(f"{name} can't be empty.")
    if command.epoch == JOIN_EPOCH:
        _check_join(command)
    elif command.epoch == STATIC_LEAVE_EPOCH and command.instance is None:
        raise _invalid("InstanceId can't be null.")
    elif command.epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if command.assignor is not None and command.assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {command.assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _check_join(command: ConsumerHeartbeat) -> None:
    if command.rebalance_timeout_ms == NO_TIMEOUT:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if command.owned is None or command.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if command.topics is None and command.pattern is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
