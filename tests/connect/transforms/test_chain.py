"""Transforms one after the other, and what settings are refused."""

import pytest

from strom.connect.api import InvalidSettings, SinkRecord, SourceRecord
from strom.connect.api.schema import INT32, STRING, array, mapping
from strom.connect.transforms import make_chain
from strom.connect.transforms.contract import Part
from tests.connect.transforms.asked import record

TWO = {
    "transforms": "route, hide",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": "old-(.*)",
    "transforms.route.replacement": "new-$1",
    "transforms.hide.type": "MaskField$Value",
    "transforms.hide.fields": "password",
    "transforms.hide.predicate": "new",
    "predicates": "new",
    "predicates.new.type": "TopicNameMatches",
    "predicates.new.pattern": "new-.*",
}
SECRET = (None, {"user": "ada", "password": "1815"})


def problems(settings):
    with pytest.raises(InvalidSettings) as raised:
        make_chain(settings)
    return raised.value.problems


def test_transforms_are_applied_in_order_and_see_what_the_ones_before_made():
    changed = make_chain(TWO)(record(SECRET, topic="old-users"))
    assert changed.topic == "new-users"
    assert changed.value == {"user": "ada", "password": ""}


def test_a_transform_is_left_out_where_its_predicate_does_not_hold():
    changed = make_chain(TWO)(record(SECRET, topic="users"))
    assert changed == record(SECRET, topic="users")


def test_negate_turns_a_predicate_round():
    changed = make_chain({**TWO, "transforms.hide.negate": "true"})(record(SECRET, topic="users"))
    assert changed.value["password"] == ""


def test_what_a_filter_drops_no_later_transform_sees():
    settings = {
        "transforms": "drop,break",
        "transforms.drop.type": "Filter",
        "transforms.drop.predicate": "empty",
        "transforms.break.type": "ValueToKey",
        "transforms.break.fields": "id",
        "predicates": "empty",
        "predicates.empty.type": "RecordIsTombstone",
    }
    assert make_chain(settings)(record()) is None
    assert make_chain(settings)(record((None, {"id": 1}))).key == {"id": 1}


def test_without_transforms_the_chain_is_false_and_changes_nothing():
    chain = make_chain({"name": "x", "topics": "t"})
    assert not chain
    assert chain(record(SECRET)) == record(SECRET)


def test_source_records_stay_source_records():
    changed = make_chain(TWO)(record(SECRET, topic="old-x", offset=None))
    assert type(changed).__name__ == "SourceRecord"
    assert changed.topic == "new-x"


def test_one_input_schema_gives_one_output_schema():
    chain = make_chain(
        {"transforms": "a", "transforms.a.type": "HoistField$Value", "transforms.a.field": "f"}
    )
    first, second = (chain(record((STRING, text))).value_schema for text in "ab")
    assert first is second


@pytest.mark.parametrize(
    ("schema", "value"), [(STRING, "x"), (array(INT32), [1]), (mapping(STRING, INT32), {"a": 1})]
)
def test_any_schema_can_get_a_name_where_kafka_renames_only_structs(schema, value):
    settings = {
        "transforms": "a",
        "transforms.a.type": "SetSchemaMetadata$Value",
        "transforms.a.schema.name": "n",
    }
    changed = make_chain(settings)(record((schema, value)))
    assert changed.value_schema.name == "n"
    assert changed.value == value


def test_an_unknown_type_is_refused_with_the_nearest():
    found = problems({"transforms": "a", "transforms.a.type": "InsertFeld$Value"})
    assert "InsertField$Value" in found["transforms.a.type"][0]


def test_a_missing_type_is_named():
    assert "transforms.a.type" in problems({"transforms": "a"})


def test_an_unknown_setting_is_refused_by_its_full_name_with_the_nearest():
    found = problems({**TWO, "transforms.hide.feilds": "x"})
    assert "fields" in found["transforms.hide.feilds"][0]


def test_a_missing_setting_is_named_in_full():
    settings = {name: text for name, text in TWO.items() if name != "transforms.hide.fields"}
    assert "transforms.hide.fields" in problems(settings)


def test_every_problem_is_reported_at_once():
    settings = {
        "transforms": "a,b",
        "transforms.a.type": "Nothing",
        "transforms.b.type": "RegexRouter",
        "transforms.b.regex": "(",
        "transforms.b.replacement": "x",
        "transforms.b.predicate": "absent",
        "predicates": "p",
        "predicates.p.type": "Nothing",
    }
    assert problems(settings).keys() >= {
        "transforms.a.type",
        "transforms.b.regex",
        "predicates.p.type",
    }


def test_a_predicate_that_is_not_listed_is_refused():
    found = problems({**TWO, "transforms.hide.predicate": "absent"})
    assert "absent" in found["transforms.hide.predicate"][0]


def test_negate_must_be_true_or_false():
    assert "transforms.hide.negate" in problems({**TWO, "transforms.hide.negate": "maybe"})


@pytest.mark.parametrize("letter", ["G", "w", "Y", "L", "q"])
def test_letters_of_dates_that_are_not_known_are_refused_by_name(letter):
    found = problems(
        {
            "transforms": "a",
            "transforms.a.type": "TimestampRouter",
            "transforms.a.timestamp.format": f"yyyy{letter}",
        }
    )
    assert f"letter {letter}" in found["transforms.a.timestamp.format"][0]


@pytest.mark.parametrize("regex", ["[a-z&&[^b]]", "\\p{IsGreek}", "\\h"])
def test_expressions_that_only_java_knows_are_refused(regex):
    found = problems({**TWO, "transforms.route.regex": regex})
    assert "transforms.route.regex" in found


def test_key_and_value_stand_at_the_same_places_in_both_kinds_of_records():
    for part in Part:
        name = part.name.lower()
        for kind in (SourceRecord, SinkRecord):
            assert kind._fields[part.place : part.place + 2] == (name, f"{name}_schema")
