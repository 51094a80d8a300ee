"""Which schema ids live, from the registry's records."""

import json

import pytest

from strom.coordination.schemas.known_ids import KnownIds


def put(ids: KnownIds, subject: str, version: int, value: dict[str, object] | None) -> None:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    ids.apply(json.dumps(key).encode(), None if value is None else json.dumps(value).encode())


def test_an_id_lives_while_any_subject_has_it():
    ids = KnownIds()
    put(ids, "a", 1, {"id": 1})
    put(ids, "b", 1, {"id": 1})
    put(ids, "a", 1, None)
    assert 1 in ids
    put(ids, "b", 1, {"id": 1, "deleted": True})
    assert 1 not in ids


def test_a_deleted_subject_takes_its_versions_along():
    ids = KnownIds()
    put(ids, "a", 1, {"id": 1})
    put(ids, "a", 2, {"id": 2})
    put(ids, "b", 1, {"id": 3})
    ids.apply(b'{"keytype":"DELETE_SUBJECT","subject":"a"}', b'{"subject":"a","version":1}')
    assert (1 in ids, 2 in ids, 3 in ids) == (False, True, True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"x", b"{}"),
        (b"[]", b"{}"),
        (b'{"keytype":"SCHEMA"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":"x"}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"a"}', b"[]"),
    ],
)
def test_what_is_not_understood_changes_nothing(key, value):
    ids = KnownIds()
    put(ids, "b", 1, {"id": 3})
    ids.apply(key, value)
    assert 3 in ids
