"""What robots.txt allows."""

import pytest

from strom.connect.connectors.web.robots import Robots

TEXT = """
# everyone
User-agent: *
Disallow: /private
Allow: /private/open$
Disallow: /*.pdf$
Disallow: /a*b*c
Crawl-delay: 2.5

User-agent: Other
User-agent: strom
Disallow: /strom-not
Disallow:

User-agent: strom
Crawl-delay: x
Allow: /
"""


@pytest.mark.parametrize(
    ("agent", "path", "allowed"),
    [
        ("someone/1.0", "/", True),
        ("someone", "/private", False),
        ("someone", "/private/x", False),
        ("someone", "/private/open", True),
        ("someone", "/private/open/x", False),
        ("someone", "/x/y.pdf", False),
        ("someone", "/x/y.pdf?download=1", True),
        ("someone", "/a-b-c-d", False),
        ("someone", "/a-c-b", True),
        ("Strom/2.0", "/private", True),
        ("strom", "/strom-not/here", False),
        ("other", "/private", True),
    ],
)
def test_the_longest_rule_that_fits_decides(agent, path, allowed):
    assert Robots(TEXT, agent).allows(path) is allowed


def test_an_allowing_rule_wins_over_an_equally_long_one():
    assert Robots("User-agent: *\nDisallow: /a\nAllow: /a", "x").allows("/ab")


def test_delays_are_kept_to_where_they_are_numbers():
    assert Robots(TEXT, "someone").delay == 2.5
    assert Robots(TEXT, "strom").delay is None


@pytest.mark.parametrize("text", ["", "Disallow: /", "\x00\n:::", "User-agent\nDisallow: /"])
def test_rules_without_a_user_agent_forbid_nothing(text):
    assert Robots(text, "strom").allows("/")


def test_many_stars_take_no_time():
    rules = "User-agent: *\nDisallow: /" + "a*" * 50 + "b$"
    assert Robots(rules, "strom").allows("/" + "a" * 5000)


def test_a_rule_and_a_path_that_are_encoded_differently_fit():
    robots = Robots("User-agent: *\nDisallow: /caf%C3%A9\nDisallow: /a%2fb", "strom")
    assert not robots.allows("/café/menu")
    assert not robots.allows("/caf%c3%a9")
    assert robots.allows("/a/b")


@pytest.mark.parametrize("agent", ["str", "my-strom", "strom-2", "strom*"])
def test_rules_for_a_name_that_only_resembles_ours_are_not_for_us(agent):
    robots = Robots(f"User-agent: {agent}\nDisallow: /\n\nUser-agent: *\nDisallow: /x", "strom/1.0")
    assert robots.allows("/a")
    assert not robots.allows("/x")


@pytest.mark.parametrize("name", ["User-agent", "useragent", "User Agent"])
def test_a_rule_is_stored_once_however_many_agents_it_is_for(name):
    agents = "\n".join(f"{name}: agent{number}" for number in range(5_000))
    rules = "\n".join(f"Disallow: /{number}" for number in range(5_000))
    robots = Robots(f"{agents}\n{name}: strom\n{rules}", "strom")
    assert not robots.allows("/4999")
    assert len(robots._rules._user_agents) == 2


@pytest.mark.parametrize("path", ["//[", "/%", "/\ud800", "/?#"])
def test_any_path_is_allowed_or_not(path):
    assert Robots("User-agent: *\nDisallow: /x", "strom").allows(path)
