"""Why a listener drops a connection that follows the protocol; the value is the metric's label."""

from enum import StrEnum


class DropReason(StrEnum):
    SLOW_UPLOAD = "slow_upload"
    """It held memory that other requests waited for."""
    REQUEST_TIMEOUT = "request_timeout"
    """A request was incomplete for too long."""
    IDLE = "idle"
    LOGIN_TIMEOUT = "login_timeout"
    MISSED_HEARTBEATS = "missed_heartbeats"
    UNREAD = "unread"
    """It read none of the last bytes before its end."""
