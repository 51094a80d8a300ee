"""Error codes are found wherever a response holds them."""

from typing import Any

import pytest

from strom.model.steps import run_at_once
from strom.server.kafka.response_errors import error_counter, error_counter_in_steps
from strom.wire.kafka.messages import RESPONSES
from strom.wire.kafka.schema import ArrayOf


@pytest.mark.parametrize("response", RESPONSES.values(), ids=lambda one: one.__name__)
def test_the_error_codes_of_every_response_are_found(response):
    """Where a declaration has an error code, at whatever depth, one that is set there is counted."""

    def filled(kind) -> tuple[Any, int]:
        made, codes = kind(), 0
        for field in kind.SCHEMA.fields:
            if field.name == "error_code":
                setattr(made, field.name, 3)
                codes += 1
            elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, type):
                inner, found = filled(field.type.element)
                setattr(made, field.name, [inner, inner])
                codes += 2 * found
            elif isinstance(field.type, type):
                inner, found = filled(field.type)
                setattr(made, field.name, inner)
                codes += found
        return made, codes

    made, codes = filled(response)
    counts: dict[int, int] = {}
    counting = error_counter(response)
    counting(made, counts)
    assert counts == ({3: codes} if codes else {})
    counting(response(), counts)
    assert sum(counts.values()) == codes
    in_steps: dict[int, int] = {}
    run_at_once(error_counter_in_steps(response)(made, in_steps))
    assert in_steps == counts
