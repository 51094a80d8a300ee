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
def test_what_names_nobody_forbids_nothing(text):
    assert Robots(text, "strom").allows("/")


def test_many_stars_take_no_time():
    rules = "User-agent: *\nDisallow: /" + "a*" * 50 + "b$"
    assert Robots(rules, "strom").allows("/" + "a" * 5000)
