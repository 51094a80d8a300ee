"""Patterns over topic names: what they match, what is no pattern, and that none takes for ever."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.consumer.topic_pattern import TopicPattern
from strom.model.errors import ApiError, ErrorCode

NAMES = ("orders", "orders-eu", "orders.eu.1", "Orders", "clicks", "a", "aa", "ab", "_x", "7")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders-eu", "orders.eu.1"}),
        (r"orders\..*", {"orders.eu.1"}),
        ("(?i)orders", {"orders", "Orders"}),
        ("(?i:o)rders|clicks", {"orders", "Orders", "clicks"}),
        ("a+", {"a", "aa"}),
        ("a{2}", {"aa"}),
        ("a{1,}", {"a", "aa"}),
        ("[ab]{2,3}?", {"aa", "ab"}),
        ("[^a-z]+", {"7"}),
        (r"\d", {"7"}),
        (r"\W*", set()),
        (r"[[:upper:]]\w*", {"Orders"}),
        (r"\p{Lu}\pL+", {"Orders"}),
        (r"\PL", {"7"}),
        ("^a$", {"a"}),
        ("a^a", set()),
        (r"orders\b.+", {"orders-eu", "orders.eu.1"}),
        (r"a\Ba", {"aa"}),
        (r"\Qorders.eu\E.1", {"orders.eu.1"}),
        (r"\x61\x{61}|\141b", {"aa", "ab"}),
        ("_x|", {"_x"}),
        ("", set()),
        ("[]_]x", {"_x"}),
        ("(?P<what>a)(?:b)", {"ab"}),
    ],
)
def test_a_pattern_matches_whole_names(pattern, names):
    assert TopicPattern(pattern).matching(NAMES) == names


@pytest.mark.parametrize(
    "pattern", ["(", "a**", "[b-a]", r"(a)\1", "(?=a)", "a{1001}", "\\", "(" * 9999]
)
def test_what_is_no_pattern_is_refused_with_the_reason(pattern):
    with pytest.raises(ApiError) as refused:
        TopicPattern(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern in refused.value.message


LONG = "a" * 249


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*.*)*b", "(a?){250}b"])
def test_no_pattern_takes_for_ever(pattern):
    # With an engine that tries every way, each of these takes longer than the universe is old.
    assert TopicPattern(pattern).matching([LONG, LONG + "b"]) == {LONG + "b"}


def test_a_pattern_that_costs_too_much_for_the_topics_there_are_is_refused_before_it_is_tried():
    pattern = TopicPattern("(?:.*a.{100}){1,5}c")
    names = [LONG] * 300
    with pytest.raises(ApiError, match="too many to match 300 names") as refused:
        pattern.matching(names)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern.matching(names[:10]) == frozenset()


@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", r"\pL{900}" * 20])
def test_the_size_of_a_pattern_is_limited(pattern):
    with pytest.raises(ApiError, match=r"repetition size|too large"):
        TopicPattern(pattern)


atoms = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\w", r"\.", "(?:a|b)", "(ab)"])
parts = st.tuples(atoms, st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "*?"])).map("".join)
patterns = st.lists(st.lists(parts, min_size=1, max_size=4).map("".join), min_size=1, max_size=3)


@given(patterns.map("|".join), st.lists(st.text("ab-._", min_size=1, max_size=6), max_size=8))
def test_it_agrees_with_pythons_engine_where_both_know_the_syntax(pattern, names):
    expected = {name for name in names if re.fullmatch(pattern, name)}
    assert TopicPattern(pattern).matching(names) == expected


@given(st.text("ab()[]{}|*+?\\^$.-:<>=!PiQEdw,12", max_size=12))
def test_any_text_is_a_pattern_or_is_refused(text):
    with contextlib.suppress(ApiError):
        TopicPattern(text).matching(NAMES)
