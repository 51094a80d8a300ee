"""References between subjects: each is resolved once, and their number and depth are limited."""

import pytest

from strom.registry.content_parsing import MAX_DEPTH, MAX_REFERENCES, resolve_references
from strom.registry.formats.schema import Reference, SchemaType
from strom.registry.records import Content, SchemaVersion
from strom.registry.refusals import RestError
from strom.registry.subjects import Subjects


def content(name, *references):
    return Content(SchemaType.AVRO, f'"{name}"', references)


def filled(contents):
    subjects = Subjects()
    for number, (name, one) in enumerate(contents.items(), 1):
        subjects.apply(SchemaVersion(name, 1, number, one))
    return subjects


def to(name, alias=None):
    return Reference(alias or name, name, 1)


def refusal(subjects, one):
    with pytest.raises(RestError) as refused:
        resolve_references(subjects, one)
    assert refused.value.code == 42201
    return str(refused.value)


def test_shared_references_are_resolved_once_and_before_what_refers_to_them():
    """60 references over 15 subjects lead to the first one in a billion ways."""
    contents = {"s0": content("s0")}
    for number in range(1, 16):
        aliases = [to(f"s{number - 1}", f"a{number}-{alias}") for alias in range(4)]
        contents[f"s{number}"] = content(f"s{number}", *aliases)
    found = resolve_references(filled(contents), content("top", to("s15")))
    assert len(found) == 61
    assert [one.name for one in found[:5]] == ["a1-0", "a1-1", "a1-2", "a1-3", "a2-0"]
    assert found[-1] == ("s15", '"s15"')


def test_circular_references_are_refused():
    subjects = filled({"a": content("a", to("b")), "b": content("b", to("a"))})
    assert "circular" in refusal(subjects, content("c", to("a")))


def test_the_depth_of_references_is_limited():
    chain = {f"s{n}": content(f"s{n}", *([to(f"s{n - 1}")] if n else [])) for n in range(60)}
    subjects = filled(chain)
    assert len(resolve_references(subjects, content("c", to(f"s{MAX_DEPTH - 1}")))) == MAX_DEPTH
    assert f"deeper than {MAX_DEPTH}" in refusal(subjects, content("c", to(f"s{MAX_DEPTH}")))


def test_the_number_of_references_is_limited():
    subjects = filled({"a": content("a")})
    allowed = content("c", *(to("a", f"x{n}") for n in range(MAX_REFERENCES)))
    assert len(resolve_references(subjects, allowed)) == MAX_REFERENCES
    above = content("c", *(to("a", f"x{n}") for n in range(MAX_REFERENCES + 1)))
    assert f"more than {MAX_REFERENCES} references" in refusal(subjects, above)
