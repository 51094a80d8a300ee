"""What a project declares, compared with what there is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.connect.declared import DECLARED_BY, plan
from strom.model.errors import UserError

configs = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"), max_size=2)
names = st.sampled_from(["a", "b", "c", "d"])


def carried_out(todo, existing):
    after = {name: config for name, config in existing.items() if name not in todo.remove}
    return after | todo.create | todo.change


@given(
    st.dictionaries(names, configs),
    st.dictionaries(names, configs),
    st.dictionaries(names, configs),
)
def test_one_plan_brings_the_declared_state_and_a_second_has_nothing_to_do(
    declared, by_hand, earlier
):
    existing: dict[str, Any] = {name: {**config, "name": name} for name, config in by_hand.items()}
    existing = {**existing, **plan("p", earlier, {}).create}
    after = carried_out(plan("p", declared, existing), existing)
    for name, config in declared.items():
        assert after[name] == {**config, "name": name, DECLARED_BY: "p"}
    for name in set(by_hand) - set(earlier) - set(declared):
        assert after[name] == existing[name], "what was made by hand is left alone"
    for name in set(earlier) - set(declared):
        assert name not in after
    assert not plan("p", declared, after)


def test_another_projects_connector_is_not_taken():
    existing = plan("other", {"a": {"x": "1"}}, {}).create
    with pytest.raises(UserError, match="project other"):
        plan("p", {"a": {"x": "1"}}, existing)
    assert plan("p", {}, existing).remove == ()
