import pytest

from strom.wire.kafka.fields import array, int16, int32, string, struct
from strom.wire.kafka.schema import ANY_LATER, NEVER, Request, Struct, Versions, parse_versions


class Point(Struct):
    x: int = int32(default=-1)
    y: int = int32("1+")


class Drawing(Request, api_key=500, versions="1-3", flexible="2+"):
    title: str | None = string(nullable="0+", default=None)
    points: list[Point] = array(Point)
    centre: Point = struct(Point)
    colour: int = int16("2+", ignorable=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3+", Versions(3, ANY_LATER)),
        ("0-12", Versions(0, 12)),
        ("4", Versions(4, 4)),
        ("none", NEVER),
    ],
)
def test_ranges_are_written_as_kafka_writes_them(text, expected):
    assert parse_versions(text) == expected


def test_a_range_contains_both_its_ends():
    assert [version in Versions(2, 4) for version in range(1, 6)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert 0 not in NEVER


def test_a_class_says_what_it_declares():
    schema = Drawing.SCHEMA
    assert (schema.api_key, schema.versions, schema.flexible.first) == (500, Versions(1, 3), 2)
    assert [field.name for field in schema.fields] == ["title", "points", "centre", "colour"]


def test_fields_that_are_left_out_have_their_defaults():
    drawing = Drawing()
    assert (drawing.title, drawing.points, drawing.centre, drawing.colour) == (None, [], Point(), 0)
    assert drawing.centre.x == -1


def test_no_two_instances_share_a_default():
    one, other = Drawing(), Drawing()
    one.points.append(Point())
    one.centre.x = 5
    assert other == Drawing()


def test_instances_have_no_room_for_misspelt_fields():
    with pytest.raises(AttributeError):
        Drawing().titel = "x"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Drawing(titel="x")  # type: ignore[call-arg]


def test_equal_means_equal_in_every_field():
    assert Point(x=1, y=2) == Point(x=1, y=2)
    assert Point(x=1, y=2) != Point(x=1, y=3)
    assert Point() != Drawing()


def test_an_instance_prints_as_the_call_that_makes_it():
    assert repr(Point(x=1, y=2)) == "Point(x=1, y=2)"
