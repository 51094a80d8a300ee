"""Opening, pausing and closing a channel."""

from strom.wire.amqp.schema import Method, bit, longstr, short, shortstr


class Open(Method, class_id=20, method_id=10):
    out_of_band: str = shortstr()


class OpenOk(Method, class_id=20, method_id=11):
    channel_id: bytes = longstr()


class Flow(Method, class_id=20, method_id=20):
    """Pauses or resumes the sending of contents."""

    active: bool = bit()


class FlowOk(Method, class_id=20, method_id=21):
    active: bool = bit()


class CloseReason(Method):
    reply_code: int = short()
    reply_text: str = shortstr()
    class_id: int = short()
    method_id: int = short()


class Close(CloseReason, class_id=20, method_id=40):
    """Either peer closes the channel, with the reason and the method that caused it."""


class CloseOk(Method, class_id=20, method_id=41):
    """Confirms the close; the channel number may be reused."""
