"""Validates the metadata and the rules of a data contract in a request.

They are stored and returned, not applied here: it is clients that read them, and fail on wrong types.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

from strom.registry.refusals import RestError

UNPROCESSABLE = 422
INVALID_RULE_SET = 42210
MAX_NAME = 256

Check: TypeAlias = Callable[[Any, str], Any]
"""Takes a value and its place, and returns the value to be stored."""


def validated(given: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request with its metadata and rules validated; RestError if they are not valid."""
    checked = _object(CONTRACT)(given, "")
    _check_rules(checked.get("ruleSet") or {})
    return dict(checked)


def _text(value: Any, place: str) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)  # Confluent's registry stores it as a string too
    return _wrong(place, "a string", value)


def _flag(value: Any, place: str) -> Any:
    return value if isinstance(value, bool) else _wrong(place, "true or false", value)


def _one_of(*names: str) -> Check:
    def check(value: Any, place: str) -> Any:
        return value if value in names else _wrong(place, f"one of {', '.join(names)}", value)

    return check


def _array(item: Check) -> Check:
    def check(value: Any, place: str) -> Any:
        if not isinstance(value, list):
            _wrong(place, "an array", value)
        return [item(one, f"{place}[{index}]") for index, one in enumerate(value)]

    return check


def _map(item: Check) -> Check:
    def check(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            _wrong(place, "an object", value)
        return {name: item(one, f"{place}.{name}") for name, one in value.items()}

    return check


def _object(fields: Mapping[str, Check]) -> Check:
    def check(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            _wrong(place, "an object", value)
        return {
            name: one
            if one is None or name not in fields
            else fields[name](one, f"{place}.{name}".lstrip("."))
            for name, one in value.items()
        }

    return check


MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
OTHER_MODES = ("WRITE", "READ", "WRITEREAD")
MODES_OF_RULES = {
    "migrationRules": MIGRATION_MODES,
    "domainRules": OTHER_MODES,
    "encodingRules": OTHER_MODES,
}
DEFAULT_MODE = "WRITEREAD"

METADATA = {"tags": _map(_array(_text)), "properties": _map(_text), "sensitive": _array(_text)}
RULE = {
    **dict.fromkeys(("name", "doc", "type", "expr", "onSuccess", "onFailure"), _text),
    "kind": _one_of("TRANSFORM", "CONDITION"),
    "mode": _one_of(*MIGRATION_MODES, *OTHER_MODES),
    "tags": _array(_text),
    "params": _map(_text),
    "disabled": _flag,
}
RULE_SET = {
    **dict.fromkeys(MODES_OF_RULES, _array(_object(RULE))),
    "enableAt": _one_of("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE"),
}
CONTRACT = {"metadata": _object(METADATA), "ruleSet": _object(RULE_SET)}


def _check_rules(rule_set: Mapping[str, Any]) -> None:
    names: set[str] = set()
    for kind, modes in MODES_OF_RULES.items():
        for rule in rule_set.get(kind) or ():
            name = rule.get("name")
            _check_name(name)
            if name in names:
                _invalid_rule(f"Found rule with duplicate name '{name}'")
            names.add(name)
            if rule.get("type") is None:
                _invalid_rule("Missing rule type")
            if (rule.get("mode") or DEFAULT_MODE) not in modes:
                word = kind.removesuffix("Rules").capitalize()
                _invalid_rule(f"{word} rules can only be {', '.join(modes)}")


def _check_name(name: str | None) -> None:
    if name is None:
        _invalid_rule("Missing rule name")
    if not name:
        _invalid_rule("Empty rule name")
    if len(name) > MAX_NAME:
        _invalid_rule("Rule name too long")
    if not (name[0].isalpha() or name[0] == "_"):
        _invalid_rule(f"Illegal initial character in rule name: {name}")
    if not all(character.isalnum() or character in "_-" for character in name):
        _invalid_rule(f"Illegal character in rule name: {name}")


def _wrong(place: str, wanted: str, value: Any) -> NoReturn:
    raise RestError(UNPROCESSABLE, f"{place} must be {wanted}, not {json.dumps(value)[:100]}.")


def _invalid_rule(reason: str) -> NoReturn:
    raise RestError(INVALID_RULE_SET, reason)
