"""The settings of groups, with Kafka's names and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.model.errors import ApiError, ErrorCode
from strom.model.settings import SECOND_MS, dynamic, static
from strom.model.share_settings import ShareBrokerSettings, ShareGroupSettings, check_share_configs


@dataclass(frozen=True, kw_only=True)
class GroupSettings(ShareGroupSettings):
    """How one group is coordinated. Change one with `kafka-configs --entity-type groups`."""

    consumer_session_timeout_ms: int = static(
        "consumer.session.timeout.ms",
        45 * SECOND_MS,
        "How long a member of a consumer group may send no heartbeat before it is removed.",
        minimum=1,
        broker_name="group.consumer.session.timeout.ms",
    )
    consumer_heartbeat_interval_ms: int = static(
        "consumer.heartbeat.interval.ms",
        5 * SECOND_MS,
        "How often members of a consumer group send heartbeats.",
        minimum=1,
        broker_name="group.consumer.heartbeat.interval.ms",
    )
    consumer_assignment_interval_ms: int = dynamic(
        "consumer.assignment.interval.ms",
        SECOND_MS,
        "The shortest time between two assignments of a consumer group, so that many members that "
        "join at once do not cause as many assignments.",
        minimum=0,
        broker_name="group.consumer.assignment.interval.ms",
    )


def check_group_configs(own: Mapping[str, str], limits: ShareBrokerSettings) -> None:
    """Raise INVALID_CONFIG unless the settings of a group are within the limits of the broker.

    The limits of `consumer.session.timeout.ms` are `group.consumer.min.session.timeout.ms` and
    `group.consumer.max.session.timeout.ms`, and likewise for every setting that has them.
    """
    for name, text in own.items():
        if name not in GroupSettings.definitions():
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        value = GroupSettings.definition(name).parse(text)
        kind, _, rest = name.partition(".")
        known = limits.definitions()
        least, most = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
        if least in known and value < limits.value(least):
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {least}"
            )
        if most in known and value > limits.value(most):
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {most}")
    check_share_configs(own, limits)
