"""SaslHandshake (17): choose the SASL mechanism of a connection."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response


class SaslHandshakeRequest(Request, api_key=17, versions="0-1"):
    """Authenticate by this mechanism; version 1 carries its messages in SaslAuthenticate (KIP-152)."""

    mechanism: str = fields.string()


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    """Whether the broker accepts the mechanism, and which ones it does accept."""

    error_code: int = fields.int16()
    mechanisms: list[str] = fields.array(fields.STRING)
