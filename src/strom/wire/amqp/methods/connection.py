"""Opening, tuning and closing a connection."""

from strom.model.tables import Table
from strom.wire.amqp.schema import Method, bit, long, longstr, octet, short, shortstr, table


class Start(Method, class_id=10, method_id=10):
    """The server says who it is and how one may log in."""

    version_major: int = octet(0)
    version_minor: int = octet(9)
    server_properties: Table = table()
    mechanisms: bytes = longstr(b"PLAIN")
    locales: bytes = longstr(b"en_US")


class StartOk(Method, class_id=10, method_id=11):
    """The client says who it is, and logs in."""

    client_properties: Table = table()
    mechanism: str = shortstr("PLAIN")
    response: bytes = longstr()
    locale: str = shortstr("en_US")


class Secure(Method, class_id=10, method_id=20):
    """The server asks for another step of logging in."""

    challenge: bytes = longstr()


class SecureOk(Method, class_id=10, method_id=21):
    """The client's next step."""

    response: bytes = longstr()


class Tune(Method, class_id=10, method_id=30):
    """The server's limits; 0 means that it has none."""

    channel_max: int = short()
    frame_max: int = long()
    heartbeat: int = short()


class TuneOk(Method, class_id=10, method_id=31):
    """What the client has chosen within them."""

    channel_max: int = short()
    frame_max: int = long()
    heartbeat: int = short()


class Open(Method, class_id=10, method_id=40):
    """The client enters a virtual host."""

    virtual_host: str = shortstr("/")
    capabilities: str = shortstr()
    insist: bool = bit()


class OpenOk(Method, class_id=10, method_id=41):
    """The virtual host is open."""

    known_hosts: str = shortstr()


class Close(Method, class_id=10, method_id=50):
    """Either side ends the connection, and says why and because of which method."""

    reply_code: int = short()
    reply_text: str = shortstr()
    class_id: int = short()
    method_id: int = short()


class CloseOk(Method, class_id=10, method_id=51):
    """The other side has understood; the socket may be closed."""


class Blocked(Method, class_id=10, method_id=60):
    """The server takes no more messages for now (RabbitMQ's extension)."""

    reason: str = shortstr()


class Unblocked(Method, class_id=10, method_id=61):
    """The server takes messages again (RabbitMQ's extension)."""


class UpdateSecret(Method, class_id=10, method_id=70):
    """The client renews its credentials (RabbitMQ's extension)."""

    new_secret: bytes = longstr()
    reason: str = shortstr()


class UpdateSecretOk(Method, class_id=10, method_id=71):
    """They were taken."""


METHODS: tuple[type[Method], ...] = (
    Start,
    StartOk,
    Secure,
    SecureOk,
    Tune,
    TuneOk,
    Open,
    OpenOk,
    Close,
    CloseOk,
    Blocked,
    Unblocked,
    UpdateSecret,
    UpdateSecretOk,
)
