"""The handshake of a connection: authentication, tuning, and opening a virtual host.

No sockets here: it takes the client's methods and returns the server's.
"""

import hmac

import strom
from strom.broker.queues.hub import check_vhost
from strom.server.amqp.session import Login, QueueServices
from strom.server.loopback import may_log_in
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.protocol import FRAME_MAX_DEFAULT, FRAME_MIN_SIZE, AmqpError, ReplyCode
from strom.wire.amqp.schema import Method, method_name
from strom.wire.amqp.table import decode_table

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


class Handshake:
    """From the protocol header to the open connection of a client on `host`."""

    def __init__(self, services: QueueServices, host: str) -> None:
        self.login: Login | None = None
        """Set when the handshake is complete."""
        self._services = services
        self._settings = services.settings
        self._host = host
        self._expected: type[Method] = methods.StartOk
        self._user = ""
        self._accepts_blocked = False
        self._frame_max = FRAME_MAX_DEFAULT
        self._channel_max = 0
        self._heartbeat_s = 0

    def begin(self) -> Method:
        """The server's first method, connection.start."""
        properties = {
            "product": "strom",
            "version": strom.__version__,
            "platform": "Python",
            "cluster_name": self._services.node,
            "capabilities": CAPABILITIES,
        }
        return methods.Start(server_properties=properties, mechanisms=MECHANISMS)

    def step(self, method: Method) -> Method | None:
        """Handle the client's next method and return the response; AmqpError ends the connection."""
        if type(method) is not self._expected:
            raise AmqpError(
                ReplyCode.COMMAND_INVALID, f"{method_name(type(method))} was not expected"
            )
        match method:
            case methods.StartOk():
                return self._log_in(method)
            case methods.TuneOk():
                self._tuned(method)
            case methods.Open():
                return self._open(method)
        return None

    def _log_in(self, method: methods.StartOk) -> Method:
        settings = self._settings
        user, password = _credentials(method)
        known = hmac.compare_digest(user.encode(), settings.amqp_user.encode())
        known = hmac.compare_digest(password, settings.amqp_password.encode()) and known
        if not known or not may_log_in(user, self._host):
            raise AmqpError(
                ReplyCode.ACCESS_REFUSED,
                f"Login was refused using authentication mechanism {method.mechanism}. For "
                "details see the broker logfile.",
            )
        self._user = user
        capabilities = method.client_properties.get("capabilities")
        if isinstance(capabilities, dict):
            self._accepts_blocked = capabilities.get("connection.blocked") is True
        self._expected = methods.TuneOk
        return methods.Tune(
            channel_max=settings.amqp_channel_max,
            frame_max=FRAME_MAX_DEFAULT,
            heartbeat=settings.amqp_heartbeat_s,
        )

    def _tuned(self, method: methods.TuneOk) -> None:
        if 0 < method.frame_max < FRAME_MIN_SIZE:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED, f"negotiated frame_max = {method.frame_max} is too small"
            )
        if method.frame_max > FRAME_MAX_DEFAULT:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED, f"negotiated frame_max = {method.frame_max} is too large"
            )
        limit = self._settings.amqp_channel_max
        if method.channel_max > limit:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED, f"negotiated channel_max = {method.channel_max} is too large"
            )
        self._frame_max = method.frame_max or FRAME_MAX_DEFAULT
        self._channel_max = method.channel_max or limit
        self._heartbeat_s = method.heartbeat
        self._expected = methods.Open

    def _open(self, method: methods.Open) -> Method:
        self.login = Login(
            self._user,
            check_vhost(self._services.queues, method.virtual_host),
            self._frame_max,
            self._channel_max,
            self._heartbeat_s,
            self._accepts_blocked,
        )
        return methods.OpenOk()


def _credentials(method: methods.StartOk) -> tuple[str, bytes]:
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
