"""The folds over the three topics, compacted or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.state import (
    ConfigState,
    OffsetState,
    Restart,
    Status,
    StatusState,
    Target,
    offset_key,
    status_key,
    topic_key,
)


def config_of(**texts):
    return {"properties": texts}


def folded(records):
    state = ConfigState()
    for offset, (key, value) in records:
        state.apply(key, value, offset)
    return state


def compacted(records):
    last = {key: offset for offset, (key, _) in records}
    return [(offset, record) for offset, record in records if last[record[0]] == offset]


def seen(state):
    return {
        name: (one.config, one.config_offset, one.target, one.tasks, one.tasks_offset)
        for name, one in state.connectors.items()
    }


@st.composite
def histories(draw):
    """What the runtime writes: tasks and their commit come together, a removal takes them along."""
    records: list[tuple[str, object]] = []
    for _ in range(draw(st.integers(0, 25))):
        name = draw(st.sampled_from(["a", "b-1"]))
        what = draw(st.sampled_from(["config", "tasks", "target", "remove", "fence", "restart"]))
        if what == "config":
            records.append((f"connector-{name}", config_of(x=str(len(records)))))
        elif what == "tasks":
            count = draw(st.integers(0, 3))
            for number in range(count):
                records.append((f"task-{name}-{number}", config_of(n=str(len(records)))))
            records.append((f"commit-{name}", {"tasks": count}))
        elif what == "target":
            target = draw(st.sampled_from(Target))
            records.append((f"target-state-{name}", target.to_json()))
        elif what == "fence":
            records.append((f"tasks-fencing-{name}", {"task-count": 1}))
        elif what == "restart":
            request = {"include-tasks": True, "only-failed": False}
            records.append((f"restart-connector-{name}", request))
        else:
            records += [
                (f"{prefix}-{name}", None) for prefix in ("connector", "target-state", "commit")
            ]
    return list(enumerate(records))


@given(histories())
def test_a_compacted_topic_replays_to_the_same_state_as_the_whole(history):
    assert seen(folded(compacted(history))) == seen(folded(history))


def test_tasks_count_only_when_they_are_committed():
    state = folded(
        enumerate(
            [
                ("connector-a", config_of(x="1")),
                ("task-a-0", config_of(n="0")),
                ("commit-a", {"tasks": 1}),
                ("task-a-0", config_of(n="new")),
                ("task-a-1", config_of(n="1")),
            ]
        )
    )
    assert state.connectors["a"].tasks == ({"n": "0"},)
    assert state.units() == {Unit("a"), Unit("a", 0)}


def test_a_commit_whose_tasks_are_gone_is_known_to_be_incomplete():
    state = folded(enumerate([("connector-a", config_of()), ("commit-a", {"tasks": 2})]))
    assert not state.connectors["a"].complete
    assert state.units() == {Unit("a")}


@pytest.mark.parametrize("aim", Target)
def test_a_target_that_was_written_first_holds(aim):
    state = folded(enumerate([("target-state-a", aim.to_json()), ("connector-a", config_of())]))
    assert state.connectors["a"].target is aim


def test_workers_before_kafka_3_5_take_stopped_for_paused():
    assert Target.STOPPED.to_json() == {"state": "PAUSED", "state.v2": "STOPPED"}
    state = folded(
        enumerate([("connector-a", config_of()), ("target-state-a", {"state": "PAUSED"})])
    )
    assert state.connectors["a"].target is Target.PAUSED


def test_restarts_are_requests_and_no_state():
    state = ConfigState()
    asked = state.apply("restart-connector-a-b", {"include-tasks": True, "only-failed": True}, 0)
    assert asked == Restart(Unit("a-b"), include_tasks=True, only_failed=True)
    assert state.apply("restart-task-a-b-3", {}, 1) == Restart(Unit("a-b", 3))
    assert state.apply("session-key", {"key": "x"}, 2) is None
    assert state.end == 3


def test_statuses_and_topics_come_and_go():
    state = StatusState()
    task = Unit("a-b", 2)
    state.apply(status_key(task), Status("RUNNING", "here:1", 4).to_json())
    state.apply(status_key(Unit("a-b")), Status("FAILED", "here:1", 4, "why").to_json())
    state.apply(topic_key("t:connector-x", "a-b"), {"topic": {"name": "t"}})
    assert state.statuses[task] == Status("RUNNING", "here:1", 4)
    assert state.statuses[Unit("a-b")].trace == "why"
    assert state.topics == {"a-b": {"t:connector-x"}}
    state.apply(status_key(task), None)
    state.apply(topic_key("t:connector-x", "a-b"), None)
    assert set(state.statuses) == {Unit("a-b")}
    assert state.topics == {"a-b": set()}


def test_offsets_are_found_however_their_key_was_written():
    state = OffsetState()
    state.apply('["files", {"b":1,"a":"x"}]', {"position": 5})
    assert state.get("files", {"a": "x", "b": 1}) == {"position": 5}
    assert state.key("files", {"a": "x", "b": 1}) == '["files", {"b":1,"a":"x"}]'
    assert state.key("files", {"a": "y"}) == offset_key("files", {"a": "y"})
    state.apply("not JSON", {"position": 5})
    state.apply('["files", {"b":1,"a":"x"}]', None)
    assert state.of("files") == []
