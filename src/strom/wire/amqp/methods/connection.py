"""Opening, tuning and closing a connection."""

from strom.model.tables import Table
from strom.wire.amqp.methods.channel import CloseReason
from strom.wire.amqp.schema import Method, bit, long, longstr, octet, short, shortstr, table


class Start(Method, class_id=10, method_id=10):
    """The server announces its properties and SASL mechanisms."""

    version_major: int = octet(0)
    version_minor: int = octet(9)
    server_properties: Table = table()
    mechanisms: bytes = longstr(b"PLAIN")
    locales: bytes = longstr(b"en_US")


class StartOk(Method, class_id=10, method_id=11):
    """The client announces its properties and authenticates."""

    client_properties: Table = table()
    mechanism: str = shortstr("PLAIN")
    response: bytes = longstr()
    locale: str = shortstr("en_US")


class Secure(Method, class_id=10, method_id=20):
    """A SASL challenge of the server."""

    challenge: bytes = longstr()


class SecureOk(Method, class_id=10, method_id=21):
    """The SASL response of the client."""

    response: bytes = longstr()


class _Limits(Method):
    channel_max: int = short()
    frame_max: int = long()
    heartbeat: int = short()


class Tune(_Limits, class_id=10, method_id=30):
    """Limits proposed by the server; 0 means no limit."""


class TuneOk(_Limits, class_id=10, method_id=31):
    """Limits chosen by the client, at most those proposed."""


class Open(Method, class_id=10, method_id=40):
    virtual_host: str = shortstr("/")
    capabilities: str = shortstr()
    insist: bool = bit()


class OpenOk(Method, class_id=10, method_id=41):
    known_hosts: str = shortstr()


class Close(CloseReason, class_id=10, method_id=50):
    """Either peer closes the connection, with the reason and the method that caused it."""


class CloseOk(Method, class_id=10, method_id=51):
    """Confirms the close; the socket may be closed."""


class Blocked(Method, class_id=10, method_id=60):
    """The server stops reading published messages because resources are low (RabbitMQ extension)."""

    reason: str = shortstr()


class Unblocked(Method, class_id=10, method_id=61):
    """The server reads published messages again (RabbitMQ extension)."""


class UpdateSecret(Method, class_id=10, method_id=70):
    """The client renews its credentials (RabbitMQ extension)."""

    new_secret: bytes = longstr()
    reason: str = shortstr()


class UpdateSecretOk(Method, class_id=10, method_id=71):
    pass
