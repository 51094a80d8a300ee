"""Metadata and rules of a data contract: what is stored, and what is refused with its place."""

import json

import pytest

from strom.registry.refusals import RestError
from strom.registry.rest.contracts import validated

RULE = {"name": "mask", "kind": "TRANSFORM", "mode": "WRITE", "type": "CEL", "tags": ["PII"]}
GOOD = {
    "metadata": {
        "tags": {"a.b": ["PII"]},
        "properties": {"owner": "shop"},
        "sensitive": ["owner"],
    },
    "ruleSet": {
        "domainRules": [{**RULE, "params": {"x": "y"}, "disabled": False, "doc": None}],
        "migrationRules": [{"name": "up", "type": "JSONATA", "mode": "UPGRADE"}],
        "enableAt": "CLIENT",
    },
}


def test_a_contract_is_stored_and_shown(ask, subject):
    assert ask.register(subject, '"int"', **GOOD).status == 200
    shown = ask("GET", f"/subjects/{subject}/versions/1").body
    assert {name: shown[name] for name in GOOD} == GOOD


def test_numbers_and_flags_are_stored_as_strings():
    given = {"metadata": {"properties": {"a": 1, "b": True}}}
    assert validated(given) == {"metadata": {"properties": {"a": "1", "b": "true"}}}


@pytest.mark.parametrize(
    ("given", "code", "reason"),
    [
        ({"metadata": "x"}, 422, 'metadata must be an object, not "x".'),
        ({"metadata": []}, 422, "metadata must be an object"),
        ({"metadata": {"properties": ["a"]}}, 422, "metadata.properties must be an object"),
        ({"metadata": {"properties": {"a": {}}}}, 422, "metadata.properties.a must be a string"),
        ({"metadata": {"tags": {"a": "PII"}}}, 422, "metadata.tags.a must be an array"),
        ({"metadata": {"sensitive": {"a": 1}}}, 422, "metadata.sensitive must be an array"),
        ({"ruleSet": 7}, 422, "ruleSet must be an object, not 7."),
        ({"ruleSet": {"domainRules": {}}}, 422, "ruleSet.domainRules must be an array"),
        ({"ruleSet": {"domainRules": ["x"]}}, 422, "ruleSet.domainRules[0] must be an object"),
        ({"ruleSet": {"domainRules": [{**RULE, "mode": "x"}]}}, 422, "[0].mode must be one of"),
        ({"ruleSet": {"domainRules": [{**RULE, "kind": []}]}}, 422, "[0].kind must be one of"),
        ({"ruleSet": {"domainRules": [{**RULE, "disabled": "x"}]}}, 422, "true or false"),
        ({"ruleSet": {"domainRules": [{**RULE, "params": 1}]}}, 422, "[0].params must be an"),
        ({"ruleSet": {"enableAt": "x"}}, 422, "ruleSet.enableAt must be one of ALL"),
        ({"ruleSet": {"domainRules": [{"type": "CEL"}]}}, 42210, "Missing rule name"),
        ({"ruleSet": {"domainRules": [{"name": "a"}]}}, 42210, "Missing rule type"),
        ({"ruleSet": {"domainRules": [{**RULE, "name": ""}]}}, 42210, "Empty rule name"),
        ({"ruleSet": {"domainRules": [{**RULE, "name": "a" * 257}]}}, 42210, "too long"),
        ({"ruleSet": {"domainRules": [{**RULE, "name": "1"}]}}, 42210, "Illegal initial"),
        ({"ruleSet": {"domainRules": [{**RULE, "name": "a b"}]}}, 42210, "Illegal character"),
        ({"ruleSet": {"domainRules": [RULE, RULE]}}, 42210, "duplicate name 'mask'"),
        ({"ruleSet": {"migrationRules": [RULE]}}, 42210, "Migration rules can only be UPGRADE"),
    ],
)
def test_wrong_types_are_refused_with_their_place(given, code, reason):
    with pytest.raises(RestError) as refused:
        validated(json.loads(json.dumps(given)))
    assert refused.value.code == code
    assert reason in str(refused.value)


def test_a_request_with_a_wrong_contract_registers_nothing(ask, subject):
    answer = ask.register(subject, '"int"', metadata={"tags": 1})
    assert (answer.status, answer.error) == (422, 422)
    assert subject not in ask("GET", "/subjects").body
