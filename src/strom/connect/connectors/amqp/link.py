"""How a broker of queues is reached, for source and sink alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from strom.connect.api import ConnectError, ConnectorSettings, Kind, RetriableError, setting

CONNECT_S = 10


@dataclass(frozen=True, kw_only=True)
class LinkSettings(ConnectorSettings):
    """Where the broker is, and who one is there."""

    url: str = setting(
        "url",
        Kind.STRING,
        "The broker's address, as amqp://host:port/virtual-host (amqps:// with TLS).",
        "amqp://127.0.0.1:5672/%2F",
    )
    user: str = setting("user", Kind.STRING, "Who to log in as.", "guest")
    password: str = setting("password", Kind.PASSWORD, "The user's password.", "guest")
    heartbeat_s: int = setting(
        "heartbeat.s",
        Kind.INT,
        "After this time without a sign of life the connection counts as lost.",
        60,
        minimum=1,
    )

    def validate(self) -> Mapping[str, str]:
        """An address that is none, or shows a secret."""
        parts = urlsplit(self.url)
        if parts.scheme not in {"amqp", "amqps"} or not parts.hostname:
            return {"url": f"{self.url} is not written as amqp://host:port/virtual-host."}
        if parts.password is not None:
            return {"url": "The address must not hold a password: that is what `password` is for."}
        return {}

    def parameters(self) -> Any:
        """What pika connects with."""
        import pika

        try:
            parameters = pika.URLParameters(self.url)
        except ValueError as error:
            raise ConnectError(f"The address {self.url} cannot be used: {error}") from None
        parameters.credentials = pika.PlainCredentials(self.user, self.password)
        parameters.heartbeat = self.heartbeat_s
        parameters.connection_attempts = 1
        parameters.socket_timeout = CONNECT_S
        parameters.stack_timeout = CONNECT_S
        parameters.blocked_connection_timeout = CONNECT_S * 3
        return parameters


def told(error: BaseException, url: str) -> ConnectError:
    """What to raise for something that pika raised: only a few things are not worth a second try."""
    from pika import exceptions

    hopeless = (
        exceptions.AuthenticationError,
        exceptions.ProbableAuthenticationError,
        exceptions.ProbableAccessDeniedError,
        exceptions.IncompatibleProtocolError,
    )
    if isinstance(error, hopeless):
        return ConnectError(f"{url} refuses the connection: {error!r}")
    if isinstance(error, exceptions.ChannelClosedByBroker):
        return ConnectError(f"{url} says {error.reply_code}: {error.reply_text}")
    return RetriableError(f"{url} cannot be reached or was lost: {error!r}")
