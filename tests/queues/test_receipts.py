"""Receipts count what they wait for, and report once."""

import pytest

from strom.queues.receipts import BatchReceipt
from strom.queues.store import PendingRemoval
from tests.queues.memory_store import MemoryStore, make_message


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [([], [True]), ([True, True], [True]), ([True, False], [False]), ([False, True], [False])],
)
def test_it_reports_once_after_its_creator_and_everything_expected(outcomes, expected):
    reported: list[bool] = []
    receipt = BatchReceipt(reported.append)
    for _ in outcomes:
        receipt.expect()
    for outcome in outcomes:
        receipt.settle(durable=outcome)
        assert reported == []
    receipt.settle(durable=True)
    assert reported == expected


def test_receipts_are_impatient_unless_asked():
    reported: list[bool] = []
    assert not BatchReceipt(reported.append).is_patient
    assert BatchReceipt(reported.append, is_patient=True).is_patient


@pytest.mark.parametrize(("durable", "left"), [(True, []), (False, [0])])
def test_a_message_is_removed_only_if_its_copy_is_durable(durable, left):
    store = MemoryStore()
    store.add(make_message(b"m"), None)
    removal = PendingRemoval(store, 0)
    assert removal.is_patient
    removal.expect()
    removal.settle(durable=True)
    assert list(store.messages) == [0]
    removal.settle(durable=durable)
    assert list(store.messages) == left


def test_the_message_of_a_removal_is_read_again_or_not_now():
    store = MemoryStore()
    store.add(make_message(b"m"), None)
    removal = PendingRemoval(store, 0)
    message = removal.message()
    assert message is not None
    assert message.body == b"m"
    store.is_readable = False
    assert removal.message() is None
