"""Topic patterns and headers against the plainest code that could be right."""

from hypothesis import given
from hypothesis import strategies as st

from strom.queues.exchanges import Direct, Fanout, Headers, Topic

WORDS = st.sampled_from(["a", "b", "", "*", "#"])
PATTERNS = st.lists(WORDS, max_size=5).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=5).map(".".join)


def words(key):
    return key.split(".") if key else []


def fits(pattern, key):
    """By the definition: `*` is one word, `#` is none or more."""
    if not pattern:
        return not key
    first, rest = pattern[0], pattern[1:]
    if first == "#":
        return any(fits(rest, key[at:]) for at in range(len(key) + 1))
    return bool(key) and first in ("*", key[0]) and fits(rest, key[1:])


@given(st.lists(st.tuples(st.integers(0, 3), PATTERNS), max_size=12), KEYS)
def test_topic_patterns(bindings, key):
    exchange: Topic[int] = Topic()
    for queue, pattern in bindings:
        exchange.bind(queue, pattern, {})
    expected = {queue for queue, pattern in bindings if fits(words(pattern), words(key))}
    assert set(exchange.match(key, {})) == expected


@given(st.lists(st.tuples(st.integers(0, 3), PATTERNS), max_size=12), st.data(), KEYS)
def test_patterns_that_were_unbound_match_no_more(bindings, data, key):
    exchange: Topic[int] = Topic()
    for queue, pattern in bindings:
        exchange.bind(queue, pattern, {})
    left = list(bindings)
    gone = data.draw(st.lists(st.sampled_from(bindings), unique=True)) if bindings else []
    for queue, pattern in gone:
        exchange.unbind(queue, pattern, {})
        left.remove((queue, pattern))
    expected = {queue for queue, pattern in left if fits(words(pattern), words(key))}
    assert set(exchange.match(key, {})) == expected
    for queue, pattern in left:
        exchange.unbind(queue, pattern, {})
    assert not exchange._root.steps, "steps are left that no pattern needs"


VALUES = st.sampled_from([None, 1, "1", True, False, 0, "a"])
NAMES = st.sampled_from(["a", "b", "x-a", "x-b"])
FORMS = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def wanted(arguments, headers):
    form = arguments.get("x-match", "all")
    agree = []
    for name, value in arguments.items():
        if name == "x-match" or (name.startswith("x-") and not form.endswith("with-x")):
            continue
        there = name in headers
        same = there and type(headers[name]) is type(value) and headers[name] == value
        agree.append(there if value is None else same)
    return all(agree) if form.startswith("all") else any(agree)


@given(
    st.lists(st.tuples(st.integers(0, 3), FORMS, st.dictionaries(NAMES, VALUES)), max_size=8),
    st.dictionaries(NAMES, VALUES),
)
def test_headers(bindings, headers):
    exchange: Headers[int] = Headers()
    expected = set()
    for queue, form, arguments in bindings:
        if form is not None:
            arguments = arguments | {"x-match": form}
        exchange.bind(queue, "", arguments)
        if wanted(arguments, headers):
            expected.add(queue)
    assert set(exchange.match("", headers)) == expected


@given(st.lists(st.tuples(st.integers(0, 3), KEYS), max_size=12), st.data(), KEYS)
def test_direct_and_fanout(bindings, data, key):
    direct: Direct[int] = Direct()
    fanout: Fanout[int] = Fanout()
    for queue, bound in bindings:
        direct.bind(queue, bound, {})
        fanout.bind(queue, bound, {})
    left = list(bindings)
    for queue, bound in (
        data.draw(st.lists(st.sampled_from(bindings), unique=True)) if bindings else []
    ):
        direct.unbind(queue, bound, {})
        fanout.unbind(queue, bound, {})
        left.remove((queue, bound))
    assert set(direct.match(key, {})) == {queue for queue, bound in left if bound == key}
    assert set(fanout.match(key, {})) == {queue for queue, _ in left}
