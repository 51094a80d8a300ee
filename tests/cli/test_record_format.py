"""How records are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.cli.record_format import shown, template_formatter


class Message:
    """A record as confluent-kafka hands it out."""

    def topic(self):
        return "clicks"

    def partition(self):
        return 2

    def offset(self):
        return 47

    def timestamp(self):
        return (1, 1700)

    def key(self):
        return None

    def value(self):
        return b"caf\xc3\xa9\xff"

    def headers(self):
        return [("a", b"1"), ("b", None)]


def test_a_template_is_filled_in():
    fill = template_formatter(r"%t/%p@%o %T [%k:%K] [%v:%V] %h 100%%\t\x21\\n\n", terminal=False)
    assert fill(Message()) == (b"clicks/2@47 1700 [:0] [caf\xc3\xa9\\xff:6] a=1,b= 100%\t!\\n\n")


@pytest.mark.parametrize("template", ["%q", "100%", "%v %"])
def test_an_unknown_field_is_refused_with_the_known_ones(template):
    with pytest.raises(ValueError, match="%t topic"):
        template_formatter(template, terminal=False)


@given(st.text())
def test_text_passes_through_a_pipe_unchanged(text):
    assert shown(text.encode(), terminal=False) == text.encode()


@given(st.binary())
def test_what_is_shown_is_always_utf_8(data):
    shown(data, terminal=False).decode()


@given(st.binary())
def test_no_record_controls_the_terminal(data):
    text = shown(data, terminal=True).decode()
    assert all(
        character in "\t\n" or character.isprintable() or ord(character) > 0x9F
        for character in text
    )
