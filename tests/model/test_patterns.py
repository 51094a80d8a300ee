import pytest

from strom.model.patterns import compile_pattern


@pytest.mark.parametrize("text", ["(a*)*b", "(a|aa)+b", "(.*.*)*b"])
def test_patterns_that_keep_a_backtracking_engine_busy_for_years_are_matched(text):
    pattern = compile_pattern(text)
    assert pattern.fullmatch("a" * 5000) is None
    assert pattern.fullmatch("a" * 5000 + "b") is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing \\)"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid perl operator"),
        ("a{1001}", "invalid repetition size"),
        (r"\pL{900}" * 20, "too large"),
        ("\ud800", "not valid Unicode"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        compile_pattern(text)


def test_groups_are_captured_and_replaced():
    pattern = compile_pattern("(?P<head>o)(r)?")
    assert (pattern.groups, pattern.groupindex["head"]) == (2, 1)
    assert pattern.sub(lambda match: f"<{match.group(2)}>", "oö or", 1) == "<None>ö or"
