"""Declared methods as values."""

import pytest

from strom.wire.amqp.methods import basic, channel, connection, queue


def test_arguments_are_taken_by_place_and_by_name():
    assert basic.Ack(5, True) == basic.Ack(delivery_tag=5, multiple=True)
    assert basic.Ack(5) != basic.Ack(6)
    assert basic.Recover(True) != basic.RecoverAsync(True)


def test_what_is_left_out_has_its_default():
    declared = queue.Declare(queue="q")
    assert (declared.durable, declared.arguments, declared.ticket) == (False, {}, 0)


def test_no_two_methods_share_a_table():
    first, second = queue.Declare(), queue.Declare()
    first.arguments["a"] = 1
    assert second.arguments == {}


def test_a_method_cannot_be_changed():
    ack = basic.Ack(5)
    with pytest.raises(AttributeError):
        ack.delivery_tag = 6  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ack.other = 6
    assert ack == basic.Ack(5)


def test_a_wrong_argument_is_refused():
    with pytest.raises(TypeError):
        basic.Ack(tag=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        channel.CloseOk(5)


def test_a_method_shows_its_class_and_arguments():
    assert repr(basic.Ack(5)) == "basic.Ack(delivery_tag=5, multiple=False)"
    assert repr(connection.CloseOk()) == "connection.CloseOk()"
