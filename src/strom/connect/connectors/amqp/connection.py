"""The connection to an AMQP broker, for source and sink alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pika
from pika import exceptions

from strom.connect.api import ConnectError, ConnectorSettings, RetriableError
from strom.connect.setting_forms import integer, secret, string

CONNECT_S = 10


@dataclass(frozen=True, kw_only=True)
class AmqpConnectionSettings(ConnectorSettings):
    """Address and credentials of the broker."""

    url: str = string(
        "url",
        "The broker's URL: amqp://host:port/virtual-host (amqps:// with TLS).",
        "amqp://127.0.0.1:5672/%2F",
    )
    user: str = string("user", "The user to authenticate as.", "guest")
    password: str = secret("password", "The user's password.", "guest")
    heartbeat_s: int = integer(
        "heartbeat.s",
        "The heartbeat interval: without traffic for this time, the connection counts as lost.",
        60,
    )

    def validate(self) -> Mapping[str, str]:
        """The URL must be valid, and must not contain credentials."""
        parts = urlsplit(self.url)
        if parts.scheme not in {"amqp", "amqps"} or not parts.hostname:
            return {"url": f"Invalid URL {self.url}: use amqp://host:port/virtual-host."}
        if parts.password is not None:
            return {"url": "The URL must not contain a password: use the setting password."}
        try:
            self.parameters()
        except ValueError as error:
            return {"url": f"Invalid URL {self.url}: {error}"}
        return {}

    def parameters(self) -> Any:
        """The connection parameters for pika."""
        parameters = pika.URLParameters(self.url)
        parameters.credentials = pika.PlainCredentials(self.user, self.password)
        parameters.heartbeat = self.heartbeat_s
        parameters.connection_attempts = 1
        parameters.socket_timeout = CONNECT_S
        parameters.stack_timeout = CONNECT_S
        parameters.blocked_connection_timeout = CONNECT_S * 3
        return parameters


def to_connect_error(error: BaseException, url: str) -> ConnectError:
    """The error to raise for an error of pika's; everything but a few is retriable."""
    hopeless = (
        exceptions.AuthenticationError,
        exceptions.ProbableAuthenticationError,
        exceptions.ProbableAccessDeniedError,
        exceptions.IncompatibleProtocolError,
    )
    if isinstance(error, hopeless):
        return ConnectError(f"{url} rejected the connection: {error!r}")
    if isinstance(error, exceptions.ChannelClosedByBroker):
        return ConnectError(f"{url} closed the channel with {error.reply_code}: {error.reply_text}")
    return RetriableError(f"{url} is unreachable, or the connection was lost: {error!r}")
