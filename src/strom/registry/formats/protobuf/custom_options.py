"""Keeps custom options whose definition is unknown, as Confluent's registry does.

The compiler refuses such options. Here each of them becomes a string option of strom's own that holds its
text, so that it has its place in the descriptor, and the printer restores it from there.

    int32 a = 1 [(acme.unit) = 5];
    int32 a = 1 [(.strom.unresolved.Field.text) = "(acme.unit) = 5"];
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from strom.registry.formats.protobuf.scanning import COMMENT, STRING

PATH = "strom/unresolved_options.proto"
_KINDS = (
    *("File", "Message", "Field", "Oneof", "ExtensionRange", "Enum", "EnumValue"),
    *("Service", "Method"),
)
_NUMBER = 536_870_911  # the highest field number, which no published option has
DEFINITIONS = """
syntax = "proto3";
package strom.unresolved;
import "google/protobuf/descriptor.proto";
""" + "".join(
    f"message {kind} {{ extend google.protobuf.{kind}Options "
    f"{{ repeated string text = {_NUMBER}; }} }}\n"
    for kind in _KINDS
)
TEXTS = frozenset(f"strom.unresolved.{kind}.text" for kind in _KINDS)
"""The full names of the options that hold the text of another one."""

_BLOCKS = {
    "message": "Message",
    "group": "Message",
    "oneof": "Oneof",
    "enum": "Enum",
    "service": "Service",
    "rpc": "Method",
}
_TOKEN = re.compile(
    rf"{COMMENT}|(?P<token>{STRING}|[-+]?+(?:[\w.]|(?<=[0-9.][eE])[-+])++|[^\s])", re.DOTALL
)
_OPENING, _CLOSING = frozenset("{[<"), frozenset("}]>")


class Token(NamedTuple):
    text: str
    start: int
    end: int


class Option(NamedTuple):
    """An option in a text: whose it is, and its tokens from the name to the value."""

    kind: str
    tokens: list[Token]

    @property
    def name(self) -> str:
        """The first part of its name, as the compiler reports it: (acme.http) of (acme.http).get."""
        texts = [token.text for token in self.tokens]
        if texts[0] != "(" or ")" not in texts:
            return texts[0].partition(".")[0]
        return "".join(texts[: texts.index(")") + 1])

    @property
    def text(self) -> str:
        texts = [token.text for token in self.tokens]
        split = texts.index("=") if "=" in texts else len(texts)
        return f"{''.join(texts[:split])} = {' '.join(texts[split + 1 :])}"


def keep_unresolved(text: str, names: set[str]) -> str:
    """The text with strom's own options in place of those that have these names."""
    parts, end = [], 0
    for option in _options(text):
        if option.name in names:
            parts.append(text[end : option.tokens[0].start])
            parts.append(f"(.strom.unresolved.{option.kind}.text) = {_quoted(option.text)}")
            end = option.tokens[-1].end
    return "".join([*parts, text[end:]])


def _options(text: str) -> Iterator[Option]:
    blocks: list[str] = []
    statement: list[Token] = []
    tokens = (
        Token(found["token"], found.start(), found.end())
        for found in _TOKEN.finditer(text)
        if found["token"]
    )
    for token in tokens:
        words = [one.text for one in statement[:3]]
        if words[:1] == ["option"]:
            statement += _until(";", token, tokens)
            yield from _option(_BLOCKS.get(blocks[-1], "") if blocks else "File", statement[1:-1])
            statement = []
        elif token.text == "[":
            kind = "ExtensionRange" if words[:1] == ["extensions"] else "Field"
            if blocks[-1:] == ["enum"]:
                kind = "EnumValue"
            yield from _in_brackets(kind, _until("]", next(tokens, token), tokens))
        elif token.text in "{};":
            if token.text == "{":
                # A group has a label before its keyword.
                blocks.append("group" if "group" in words[:2] else words[0] if words else "")
            elif token.text == "}" and blocks:
                blocks.pop()
            statement = []
        else:
            statement.append(token)


def _in_brackets(kind: str, tokens: list[Token]) -> Iterator[Option]:
    depth, entry = 0, list[Token]()
    for token in tokens[:-1]:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if token.text == "," and not depth:
            yield from _option(kind, entry)
            entry = []
        else:
            entry.append(token)
    yield from _option(kind, entry)


def _option(kind: str, tokens: list[Token]) -> Iterator[Option]:
    if kind and tokens:
        yield Option(kind, tokens)


def _until(end: str, first: Token, tokens: Iterator[Token]) -> list[Token]:
    """The tokens from `first` to one that ends them outside all brackets, which is the last of them."""
    depth, found = 0, [first]
    while depth or found[-1].text != end:
        depth += (found[-1].text in _OPENING) - (found[-1].text in _CLOSING)
        token = next(tokens, None)
        if token is None:
            break
        found.append(token)
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
