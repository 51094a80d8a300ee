"""A fenced producer raises an exception, even where confluent-kafka does not."""

import ctypes

import pytest
from confluent_kafka import KafkaError, KafkaException

from strom.client.transactional_producer import TransactionalProducer, raise_as_exception


def throw_what_is_no_exception() -> None:
    """As confluent-kafka does, from C, where nobody checks."""
    thrown = KafkaError(KafkaError._FENCED, "fenced", fatal=True)
    # PyErr_Restore takes both references over.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(KafkaError))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thrown))
    ctypes.pythonapi.PyErr_Restore(ctypes.py_object(KafkaError), ctypes.py_object(thrown), None)


def test_confluents_error_is_no_exception_or_this_module_can_go():
    assert not issubclass(KafkaError, BaseException)


def test_what_is_no_exception_becomes_one():
    with pytest.raises(KafkaException, match="cannot be used any more") as caught:
        raise_as_exception(throw_what_is_no_exception)
    assert caught.value.args[0].fatal()


def test_a_system_error_is_reported_as_what_it_stands_for():
    def returns_and_raises():
        raise SystemError("<method 'flush'> returned a result with an exception set")

    with pytest.raises(KafkaException, match="returned a result") as caught:
        raise_as_exception(returns_and_raises)
    assert caught.value.args[0].fatal()


@pytest.mark.parametrize("problem", [ValueError("as it was"), KeyboardInterrupt()])
def test_all_else_goes_through(problem):
    def fails():
        raise problem

    with pytest.raises(type(problem)) as caught:
        raise_as_exception(fails)
    assert caught.value is problem


def test_what_is_returned_goes_through():
    assert raise_as_exception(int, "7") == 7


def test_a_producer_that_was_pushed_aside_raises_kafka_exceptions_only(
    strom_server, new_topic_name
):
    settings = {
        "bootstrap.servers": strom_server.bootstrap_servers,
        "transactional.id": new_topic_name(),
        "log_level": 0,
    }
    topic = new_topic_name()
    first = TransactionalProducer(settings)
    first.init_transactions(30)
    first.begin_transaction()
    first.produce(topic, b"before")
    assert first.flush(30) == 0
    second = TransactionalProducer(settings)
    second.init_transactions(30)
    first.produce(topic, b"after")
    for call in (first.flush, first.commit_transaction, first.abort_transaction):
        with pytest.raises(KafkaException):
            call(30)
    second.begin_transaction()
    second.abort_transaction(30)
