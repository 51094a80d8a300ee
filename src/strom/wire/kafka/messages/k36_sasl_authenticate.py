"""SaslAuthenticate (36): one message of a SASL exchange."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response


class SaslAuthenticateRequest(Request, api_key=36, versions="0-2", flexible="2+"):
    """The client's message, as the mechanism defines it."""

    auth_bytes: bytes = fields.blob()

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest()"  # the message of PLAIN is the password


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    """The broker's message, or why it rejects the client."""

    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")
    auth_bytes: bytes = fields.blob()
    session_lifetime_ms: int = fields.int64("1+", ignorable=True)
    """After this long the connection must authenticate again (KIP-368); 0 for never."""
