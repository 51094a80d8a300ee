"""Every transform does to a record what Kafka's own does."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.connect.api.schema import BOOLEAN, INT32, INT64, OPTIONAL_STRING, STRING, Type, struct
from strom.connect.transforms import PREDICATES, TRANSFORMS, make_chain
from strom.connect.transforms.catalogue import TransformPlugin
from tests.connect.judge import Judge
from tests.connect.transforms.asked import KAFKAS_NAME, alike, at_kafka, here, record, shown
from tests.connect.transforms.cases import CASES, WITH_DEFAULT, Case, headed, tombstone

pytestmark = pytest.mark.oracle


def name(case: Case) -> str:
    settings = ",".join(f"{key}={text}" for key, text in case.settings.items())
    return f"{case.name}({settings})"


def test_the_table_is_large():
    assert len(CASES) > 150
    assert {case.name for case in CASES} == {kind.name for kind in TRANSFORMS}


@pytest.mark.parametrize("case", CASES, ids=name)
def test_kafka_and_strom_agree(judge: Judge, case: Case):
    theirs = at_kafka(judge, *case)
    ours = here(*case)
    if "error" in theirs:
        assert "error" in ours, theirs
    else:
        assert ours == theirs or alike(ours) == alike(theirs)


NEEDED = {
    "Cast": {"spec": "string"},
    "ExtractField": {"field": "f"},
    "HeaderFrom": {"fields": "f", "headers": "h", "operation": "copy"},
    "HoistField": {"field": "f"},
    "InsertField": {"topic.field": "f"},
    "MaskField": {"fields": "f"},
    "SetSchemaMetadata": {"schema.name": "n"},
    "TimestampConverter": {"target.type": "Date"},
    "DropHeaders": {"headers": "h"},
    "InsertHeader": {"header": "h", "value.literal": "1"},
    "RegexRouter": {"regex": "a", "replacement": "b"},
    "ValueToKey": {"fields": "f"},
    "HasHeaderKey": {"name": "h"},
    "TopicNameMatches": {"pattern": "t"},
}


@pytest.mark.parametrize("kind", [*TRANSFORMS, *PREDICATES], ids=lambda kind: kind.name)
def test_the_settings_are_those_that_kafka_has(judge: Judge, kind: TransformPlugin):
    needed = NEEDED.get(kind.name.partition("$")[0], {})
    theirs = judge.ask({"do": "names", "class": kind.class_name, "settings": needed})
    assert sorted(kind.settings_class().definitions()) == theirs["names"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("HasHeaderKey", {"name": "a"}),
        ("HasHeaderKey", {"name": "none"}),
        ("RecordIsTombstone", {}),
        ("TopicNameMatches", {"pattern": "ord.*"}),
        ("TopicNameMatches", {"pattern": "ord"}),
        ("TopicNameMatches", {"pattern": "[^x]\\w+"}),
    ],
)
@pytest.mark.parametrize("given", [headed, tombstone], ids=["headed", "tombstone"])
def test_predicates_hold_of_the_same_records(judge: Judge, name, settings, given):
    sent = shown(given)["record"] | {"offset": given.offset}
    theirs = judge.ask(
        {"do": "predicate", "class": KAFKAS_NAME[name], "settings": settings, "record": sent}
    )
    own = {f"predicates.p.{key}": text for key, text in settings.items()}
    chain = make_chain(
        {
            "transforms": "it",
            "transforms.it.type": "Filter",
            "transforms.it.predicate": "p",
            "predicates": "p",
            "predicates.p.type": name,
            **own,
        }
    )
    assert (chain(given) is None) == theirs["holds"]


plain_values = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5)
maps = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), plain_values, min_size=1, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), plain_values | inner, max_size=3),
    max_leaves=4,
)
field_schemas = st.sampled_from([INT32, INT64, STRING, OPTIONAL_STRING, WITH_DEFAULT, BOOLEAN])
VALUES = {
    Type.INT32: st.integers(-(2**31), 2**31 - 1),
    Type.INT64: st.integers(-(2**63), 2**63 - 1),
    Type.STRING: st.text(max_size=5),
    Type.BOOLEAN: st.booleans(),
}


@st.composite
def structs(draw: st.DrawFn):
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    schema = struct({name: draw(field_schemas) for name in names})
    value = {}
    for field in schema.fields:
        strategy = VALUES[field.schema.type]
        value[field.name] = draw(st.none() | strategy if field.schema.optional else strategy)
    return schema, value


SOME = [
    ("ReplaceField$Value", {"exclude": "a", "renames": "b:z"}),
    ("ReplaceField$Value", {"include": "a,b", "replace.null.with.default": "false"}),
    ("MaskField$Value", {"fields": "a,b"}),
    ("MaskField$Value", {"fields": "a", "replacement": "7"}),
    ("InsertField$Value", {"topic.field": "t", "offset.field": "o!"}),
    ("ExtractField$Value", {"field": "a"}),
    ("ExtractField$Value", {"field": "a.b", "field.syntax.version": "V2"}),
    ("ValueToKey", {"fields": "a,b"}),
    ("Flatten$Value", {"delimiter": "/"}),
    ("Cast$Value", {"spec": "a:string,b:int8"}),
    ("Cast$Value", {"spec": "a:boolean,b:int64"}),
    ("HeaderFrom$Value", {"fields": "a", "headers": "h", "operation": "move"}),
    ("HoistField$Value", {"field": "f"}),
    ("SetSchemaMetadata$Value", {"schema.name": "n"}),
]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    transform=st.sampled_from(SOME),
    value=structs() | maps.map(lambda value: (None, value)),
)
def test_kafka_and_strom_agree_on_any_record(judge: Judge, transform, value):
    (name, texts), given = transform, record(value, timestamp=1)
    theirs = at_kafka(judge, name, texts, given)
    ours = here(name, texts, given)
    assert ("error" in ours) == ("error" in theirs), (ours, theirs)
    if "error" not in theirs:
        assert ours == theirs


moments = st.integers(-(2**40), 2**42)
patterns = (
    st.lists(
        st.sampled_from(
            ["yyyy", "MM", "-M-", "dd", "-d-", "HH", "mm", "ss", "SSS", "'T'", "-", " ", "MMM"]
        ),
        min_size=1,
        max_size=7,
    )
    .map("".join)
    .map(str.strip)
    .filter(bool)
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(millis=moments, pattern=patterns)
def test_times_are_written_and_read_as_java_does(judge: Judge, millis, pattern):
    writing = ("TimestampConverter$Value", {"target.type": "string", "format": pattern})
    written = here(*writing, record((INT64, millis)))
    assert written == at_kafka(judge, *writing, record((INT64, millis)))
    reading = ("TimestampConverter$Value", {"target.type": "unix", "format": pattern})
    text = record((STRING, written["record"]["value"]["payload"]))
    ours, theirs = here(*reading, text), at_kafka(judge, *reading, text)
    assert ("error" in ours) == ("error" in theirs), (ours, theirs)
    if "error" not in theirs:
        assert ours == theirs
