"""Opening, pausing and closing a channel."""

from strom.wire.amqp.schema import Method, bit, longstr, short, shortstr


class Open(Method, class_id=20, method_id=10):
    """The client opens the channel."""

    out_of_band: str = shortstr()


class OpenOk(Method, class_id=20, method_id=11):
    """The channel is open."""

    channel_id: bytes = longstr()


class Flow(Method, class_id=20, method_id=20):
    """Stop or resume the sending of contents."""

    active: bool = bit()


class FlowOk(Method, class_id=20, method_id=21):
    """It was stopped or resumed."""

    active: bool = bit()


class Close(Method, class_id=20, method_id=40):
    """Either side ends the channel, and says why and because of which method."""

    reply_code: int = short()
    reply_text: str = shortstr()
    class_id: int = short()
    method_id: int = short()


class CloseOk(Method, class_id=20, method_id=41):
    """The other side has understood; the number may be used again."""


METHODS: tuple[type[Method], ...] = (Open, OpenOk, Flow, FlowOk, Close, CloseOk)
