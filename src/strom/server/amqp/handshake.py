"""Logging in: who the client is, what both sides can take, and which virtual host it enters."""

import hmac
from typing import TYPE_CHECKING

import strom
from strom.broker.queues.hub import check_vhost
from strom.server.loopback import may_log_in
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.protocol import FRAME_MAX_DEFAULT, FRAME_MIN_SIZE, AmqpError, ReplyCode
from strom.wire.amqp.schema import Method, method_name
from strom.wire.amqp.table import decode_table

if TYPE_CHECKING:
    from strom.server.amqp.connection import AmqpConnection

CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
}
MECHANISMS = b"PLAIN AMQPLAIN"
RECEIVED_FRAME_MAX = FRAME_MAX_DEFAULT


class Handshake:
    """From the protocol header to the open connection."""

    def __init__(self, connection: "AmqpConnection") -> None:
        self._connection = connection
        self._expected: type[Method] = methods.StartOk
        self._heartbeat_s = 0

    def begin(self) -> None:
        """Say who we are."""
        properties = {
            "product": "strom",
            "version": strom.__version__,
            "platform": "Python",
            "cluster_name": self._connection.services.node,
            "capabilities": CAPABILITIES,
        }
        self._connection.reader.frame_max = RECEIVED_FRAME_MAX
        self._connection.send(0, methods.Start(server_properties=properties, mechanisms=MECHANISMS))

    def step(self, method: Method) -> None:
        """Take the client's next word."""
        if type(method) is not self._expected:
            raise AmqpError(
                ReplyCode.COMMAND_INVALID, f"{method_name(type(method))} was not expected"
            )
        match method:
            case methods.StartOk():
                self._log_in(method)
            case methods.TuneOk():
                self._tuned(method)
            case methods.Open():
                self._open(method)

    def _log_in(self, method: methods.StartOk) -> None:
        connection = self._connection
        settings = connection.services.settings
        user, password = _credentials(method)
        known = hmac.compare_digest(user.encode(), settings.amqp_user.encode())
        known = hmac.compare_digest(password, settings.amqp_password.encode()) and known
        if not known or not may_log_in(user, connection.host):
            raise AmqpError(
                ReplyCode.ACCESS_REFUSED,
                f"Login was refused using authentication mechanism {method.mechanism}. For "
                "details see the broker logfile.",
            )
        connection.user = user
        capabilities = method.client_properties.get("capabilities")
        if isinstance(capabilities, dict):
            connection.client_takes_blocked = capabilities.get("connection.blocked") is True
        connection.send(
            0,
            methods.Tune(
                channel_max=settings.amqp_channel_max,
                frame_max=FRAME_MAX_DEFAULT,
                heartbeat=settings.amqp_heartbeat_s,
            ),
        )
        self._expected = methods.TuneOk

    def _tuned(self, method: methods.TuneOk) -> None:
        connection = self._connection
        if 0 < method.frame_max < FRAME_MIN_SIZE:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED, f"negotiated frame_max = {method.frame_max} is too small"
            )
        if method.frame_max > FRAME_MAX_DEFAULT:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED, f"negotiated frame_max = {method.frame_max} is too large"
            )
        connection.frame_max = method.frame_max or FRAME_MAX_DEFAULT
        connection.reader.frame_max = connection.frame_max
        limit = connection.services.settings.amqp_channel_max
        if method.channel_max > limit:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED, f"negotiated channel_max = {method.channel_max} is too large"
            )
        connection.channel_max = method.channel_max or limit
        self._heartbeat_s = method.heartbeat
        self._expected = methods.Open

    def _open(self, method: methods.Open) -> None:
        connection = self._connection
        vhost = check_vhost(connection.services.queues, method.virtual_host)
        connection.opened(vhost, heartbeat_s=self._heartbeat_s)
        connection.send(0, methods.OpenOk())


def _credentials(method: methods.StartOk) -> tuple[str, bytes]:
    """User and password."""
    if method.mechanism == "PLAIN":
        parts = method.response.split(b"\0")
        if len(parts) == 3:
            return parts[1].decode("utf-8", "replace"), parts[2]
    elif method.mechanism == "AMQPLAIN":
        length = len(method.response).to_bytes(4, "big")
        table, _ = decode_table(length + method.response)
        user, password = table.get("LOGIN"), table.get("PASSWORD")
        if isinstance(user, str) and isinstance(password, str):
            return user, password.encode("utf-8", "surrogateescape")
    raise AmqpError(
        ReplyCode.ACCESS_REFUSED, f"Login was refused using mechanism {method.mechanism}"
    )
