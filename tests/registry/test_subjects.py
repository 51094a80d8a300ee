"""The state of all subjects is what the log adds up to, however it was compacted."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.registry.configuring import set_config, set_mode
from strom.registry.deleting import delete_subject, delete_version
from strom.registry.formats.schema import Reference, SchemaType
from strom.registry.records import Content, SchemaVersion
from strom.registry.registering import SchemaRequest, register
from strom.registry.subjects import Subjects
from tests.registry.operations import OPERATIONS, Played, compacted, content, replayed

PATIENTLY = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
HISTORIES = st.lists(OPERATIONS, max_size=60)


@given(HISTORIES)
@PATIENTLY
def test_the_log_played_again_gives_the_same_state(operations):
    live = Played()
    for operation in operations:
        live.play(operation)
    assert replayed(live.log).snapshot() == live.subjects.snapshot()


@given(HISTORIES, st.integers(0, 200), st.booleans())
@PATIENTLY
def test_compaction_takes_nothing_from_the_state(operations, upto, tombstones):
    live = Played()
    for operation in operations:
        live.play(operation)
    left = compacted(live.log, upto, tombstones=tombstones)
    assert replayed(left).snapshot() == live.subjects.snapshot()


@given(HISTORIES, st.integers(0, 200))
@PATIENTLY
def test_an_id_means_one_schema_for_ever_and_a_schema_has_one_id(operations, restart_at):
    live = Played()
    for index, operation in enumerate(operations):
        if index == restart_at:  # all that was deleted for good is out of the log by then
            left = compacted(live.log, len(live.log), tombstones=False)
            live.log, live.subjects = left, replayed(left)
        live.play(operation)
        imported = any(b'"IMPORT"' in (record.value or b"") for record in live.log)
        if imported:
            return  # whoever imports brings ids along, and answers for them
        assert all(len(contents) == 1 for contents in live.given.values())
        ids = [live.subjects.id_of(one.content) for one in live.subjects.all_versions(deleted=True)]
        assert ids == [one.id for one in live.subjects.all_versions(deleted=True)]


@given(HISTORIES)
@PATIENTLY
def test_what_is_referred_to_is_always_there(operations):
    live = Played()
    for operation in operations:
        live.play(operation)
        for one in live.subjects.all_versions(deleted=True):
            for reference in one.content.references:
                assert live.subjects.referenced(reference) is not None


def wish(live, subject, number, references=(), **given):
    return live.play(
        lambda now: register(now, SchemaRequest(subject, content(number, references), **given))
    )


def test_an_id_is_not_given_again_when_its_schema_is_out_of_the_log_for_good():
    live = Played()
    wish(live, "a", 1)
    newest = wish(live, "a", 2)
    live.play(lambda now: delete_version(now, "a", 2, permanent=False))
    live.play(lambda now: delete_version(now, "a", 2, permanent=True))
    left = compacted(live.log, len(live.log), tombstones=False)
    after_restart = Played(left, replayed(left))
    assert after_restart.subjects.content(newest.id) is None
    assert wish(after_restart, "a", 3).id == newest.id + 1


def test_an_id_is_not_given_again_when_an_import_took_its_place_in_the_log():
    live = Played()
    live.play(lambda now: set_mode(now, None, "IMPORT"))
    wish(live, "a", 1, id=2, version=2)
    wish(live, "a", 1, id=1, version=2)
    left = compacted(live.log, len(live.log), tombstones=False)
    assert replayed(left).highest_id == 2


def test_a_second_deletion_of_a_subject_does_not_bring_back_what_the_first_took():
    live = Played()
    live.play(lambda now: set_config(now, None, {"compatibility": "NONE"}))
    for number in (1, 2, 3):
        wish(live, "a", number)
    live.play(lambda now: delete_subject(now, "a", permanent=False))
    live.play(lambda now: set_mode(now, "a", "IMPORT", force=True))
    wish(live, "a", 1, id=1, version=1)
    assert [one.version for one in live.subjects.versions("a")] == [1]
    live.play(lambda now: delete_subject(now, "a", permanent=False))
    left = compacted(live.log, len(live.log), tombstones=False)
    assert replayed(left).versions("a") == live.subjects.versions("a") == []


def test_what_others_refer_to_cannot_be_deleted():
    live = Played()
    wish(live, "a", 1)
    wish(live, "b", 2, (Reference("R", "a", 1),))
    assert live.play(lambda now: delete_version(now, "a", 1, permanent=False)).code == 42206
    assert live.play(lambda now: delete_subject(now, "a", permanent=False)).code == 42206
    live.play(lambda now: delete_subject(now, "b", permanent=False))
    live.play(lambda now: delete_version(now, "a", 1, permanent=False))
    assert live.play(lambda now: delete_version(now, "a", 1, permanent=True)).code == 42206
    live.play(lambda now: delete_subject(now, "b", permanent=True))
    assert live.play(lambda now: delete_version(now, "a", 1, permanent=True)) == 1


def test_a_second_meaning_of_an_id_is_left_out_as_confluents_registry_does():
    subjects = Subjects()
    first = SchemaVersion("a", 1, 1, Content(SchemaType.AVRO, '"int"'))
    subjects.apply(first)
    subjects.apply(SchemaVersion("b", 1, 1, Content(SchemaType.AVRO, '"long"')))
    assert subjects.subjects() == ["a"]
    assert subjects.content(1) == first.content
