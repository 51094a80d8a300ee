import pytest

from strom.connect.transforms.java_regex import compile_pattern, compile_replacement


@pytest.mark.parametrize(
    ("java", "name"),
    [
        (r"\p{Alpha}+\.\Qa.b\E", "orders.a.b"),
        (r"[\p{Lower}.]+", "a.b"),
        (r"\u006frders\Z", "orders"),
        (r"[\Q-.\E]+", "-.-"),
        ("(?<name>a|ab)(?i:C)", "abc"),
    ],
)
def test_what_java_and_re2_both_know_is_translated(java, name):
    assert compile_pattern(java).fullmatch(name) is not None


@pytest.mark.parametrize(
    "java", ["(?!orders).*", "(?<=a)b", "(?<!a)b", "(?>a*)a", "a*+b", r"(a)\1", r"(?<n>a)\k<n>"]
)
def test_what_only_a_backtracking_engine_can_do_is_refused_with_a_way_out(java):
    with pytest.raises(ValueError, match=r"look-around.*unsupported.*negate"):
        compile_pattern(java)


@pytest.mark.parametrize("java", ["(?U)a", "(?x) a", "(?iu)a"])
def test_flags_that_re2_lacks_or_reads_otherwise_are_refused(java):
    with pytest.raises(ValueError, match="only the flags i, m and s"):
        compile_pattern(java)


def test_a_plus_in_a_class_is_no_quantifier():
    assert compile_pattern("[*+]{2}").fullmatch("+*") is not None


def test_a_replacement_names_groups_by_number_and_name():
    pattern = compile_pattern("(?<head>a)(b)?")
    replace = compile_replacement(r"${head}-$2-\$$11", pattern)
    assert pattern.sub(replace, "a", 1) == "a--$a1"
