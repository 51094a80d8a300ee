"""The handshake, method by method, without a connection."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from strom.model.broker_settings import BrokerSettings
from strom.queues.errors import QueueError
from strom.queues.virtual_host import VirtualHost
from strom.server.amqp.handshake import Handshake
from strom.server.amqp.session import Login, QueueServices
from strom.server.memory import NetworkMemory
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from strom.wire.amqp.table import encode_table

VHOST = VirtualHost("/")


def handshake(host: str = "127.0.0.1") -> Handshake:
    queues = cast("Any", SimpleNamespace(vhosts={"/": VHOST}))
    services = QueueServices(
        queues, cast("Any", None), BrokerSettings(), "strom@test", NetworkMemory(1)
    )
    return Handshake(services, host)


def start_ok(response: bytes = b"\0guest\0guest", mechanism: str = "PLAIN", **properties: Any):
    return methods.StartOk(properties, mechanism, response, "en_US")


def tune_ok(channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0):
    return methods.TuneOk(channel_max, frame_max, heartbeat)


def login_of(shaking: Handshake) -> Login | None:
    return shaking.login


def test_a_client_that_knows_the_password_gets_in():
    shaking = handshake()
    assert isinstance(shaking.begin(), methods.Start)
    capabilities = {"connection.blocked": True}
    assert isinstance(shaking.step(start_ok(capabilities=capabilities)), methods.Tune)
    assert shaking.step(tune_ok(channel_max=5, frame_max=8192, heartbeat=30)) is None
    assert login_of(shaking) is None
    assert isinstance(shaking.step(methods.Open("/")), methods.OpenOk)
    login = login_of(shaking)
    assert login is not None
    assert login.vhost is VHOST
    assert (login.user, login.frame_max, login.channel_max) == ("guest", 8192, 5)
    assert (login.heartbeat_s, login.accepts_blocked) == (30, True)


def test_the_other_mechanism_has_the_password_in_a_table():
    table = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    assert isinstance(handshake().step(start_ok(table, "AMQPLAIN")), methods.Tune)


@pytest.mark.parametrize(
    "refused",
    [
        start_ok(b"\0guest\0wrong"),
        start_ok(b"\0other\0guest"),
        start_ok(b"guest"),
        start_ok(b"", "EXTERNAL"),
    ],
)
def test_others_are_refused(refused):
    with pytest.raises(AmqpError) as error:
        handshake().step(refused)
    assert error.value.code is ReplyCode.ACCESS_REFUSED


def test_the_guest_may_come_from_this_machine_only():
    with pytest.raises(AmqpError) as error:
        handshake("192.0.2.7").step(start_ok())
    assert error.value.code is ReplyCode.ACCESS_REFUSED


@pytest.mark.parametrize(
    "tuned", [tune_ok(frame_max=4095), tune_ok(frame_max=131073), tune_ok(channel_max=65535)]
)
def test_what_exceeds_the_offer_is_refused(tuned):
    shaking = handshake()
    shaking.step(start_ok())
    with pytest.raises(AmqpError) as error:
        shaking.step(tuned)
    assert error.value.code is ReplyCode.NOT_ALLOWED


def test_no_limit_of_the_client_means_ours():
    shaking = handshake()
    shaking.step(start_ok())
    shaking.step(tune_ok())
    shaking.step(methods.Open("/"))
    assert shaking.login is not None
    assert (shaking.login.frame_max, shaking.login.channel_max) == (131072, 2047)


def test_methods_out_of_order_are_refused():
    with pytest.raises(AmqpError) as error:
        handshake().step(methods.Open("/"))
    assert error.value.code is ReplyCode.COMMAND_INVALID


def test_an_unknown_virtual_host_is_refused():
    shaking = handshake()
    shaking.step(start_ok())
    shaking.step(tune_ok())
    with pytest.raises(QueueError, match="vhost other not found"):
        shaking.step(methods.Open("other"))
    assert shaking.login is None
