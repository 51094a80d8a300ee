"""Reply codes, as the specification and RabbitMQ's clients have them."""

from typing import Any

import pamqp.exceptions
import pytest

from strom.model.errors import ProtocolError
from strom.wire.amqp.protocol import AmqpError, Closes, ReplyCode

SPECIFIED: dict[int, Any] = pamqp.exceptions.CLASS_MAPPING


@pytest.mark.parametrize("number", sorted(SPECIFIED))
def test_a_reply_code_is_named_and_closes_as_specified(number):
    code, theirs = ReplyCode(number), SPECIFIED[number]
    assert code.name == theirs.name.replace("-", "_")
    if code is ReplyCode.NO_ROUTE:
        assert code.closes is Closes.NOTHING
    elif issubclass(theirs, pamqp.exceptions.AMQPHardError):
        assert code.closes is Closes.CONNECTION
    else:
        assert code.closes is Closes.CHANNEL


def test_no_reply_code_is_missing():
    assert {int(code) for code in ReplyCode} == {200, *SPECIFIED}


def test_an_error_is_reported_as_rabbitmq_reports_it():
    error = AmqpError(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'")
    assert isinstance(error, ProtocolError)
    assert str(error) == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert error.code == 404
