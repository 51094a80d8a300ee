"""Publisher confirms: numbers in, as few acknowledgements as possible out."""

from typing import Any

from strom.server.amqp.confirms import Confirms
from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.delivering import ack_frame
from strom.wire.amqp.methods import basic


def written(confirms: Confirms) -> tuple[int, list[Any]]:
    out: list[Any] = []
    return confirms.write(out, 1), out


def test_numbers_in_order_are_confirmed_by_one_frame():
    due: list[None] = []
    confirms = Confirms(lambda: due.append(None))
    receipts = [confirms.expect() for _ in range(3)]
    assert not confirms.is_due
    for receipt in receipts:
        receipt.settle(durable=True)
    assert due == [None]
    assert written(confirms) == (3, [ack_frame(1, 3, True)])
    assert not confirms.is_due


def test_a_number_waits_for_every_queue():
    confirms = Confirms(lambda: None)
    receipt = confirms.expect()
    receipt.expect()
    receipt.settle(durable=True)
    assert not confirms.is_due
    receipt.settle(durable=True)
    assert written(confirms) == (1, [ack_frame(1, 1, False)])


def test_one_refusal_is_a_nack_and_the_others_are_confirmed_singly_until_the_gap_closes():
    confirms = Confirms(lambda: None)
    first, second, third = (confirms.expect() for _ in range(3))
    third.settle(durable=True)
    second.settle(durable=False)
    nack = method_frame(1, basic.Nack(2, False, False))
    assert written(confirms) == (2, [nack, ack_frame(1, 3, False)])
    first.settle(durable=True)
    assert written(confirms) == (1, [ack_frame(1, 1, False)])
    fourth = confirms.expect()
    fourth.settle(durable=True)
    assert written(confirms) == (1, [ack_frame(1, 4, False)])


def test_a_closed_channel_reports_what_was_not_confirmed_and_confirms_no_more():
    confirms = Confirms(lambda: None)
    first, second = confirms.expect(), confirms.expect()
    first.settle(durable=True)
    assert written(confirms)[0] == 1
    assert confirms.close() == 1
    second.settle(durable=True)
    assert not confirms.is_due
