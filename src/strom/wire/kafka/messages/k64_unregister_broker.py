"""UnregisterBroker (64): remove a broker that was shut down from the cluster."""

from strom.wire.kafka import fields
from strom.wire.kafka.schema import Request, Response


class UnregisterBrokerRequest(Request, api_key=64, versions="0", flexible="0+"):
    broker_id: int = fields.int32()


class UnregisterBrokerResponse(Response, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = fields.int32()
    error_code: int = fields.int16()
    error_message: str | None = fields.string(nullable="0+")
