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
OWN = frozenset(f"(.{name})" for name in TEXTS)

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
WORDS = 2
_OPENING, _CLOSING = frozenset("{[<"), frozenset("}]>")


class Option(NamedTuple):
    """An option in a text: whose it is, and its tokens from the name to the value."""

    kind: str
    tokens: list[re.Match[str]]

    @property
    def name(self) -> str:
        """The first part of its name, as the compiler reports it: (acme.http) of (acme.http).get."""
        texts = [token[0] for token in self.tokens]
        if texts[0] != "(" or ")" not in texts:
            return texts[0].partition(".")[0]
        return "".join(texts[: texts.index(")") + 1])

    @property
    def text(self) -> str:
        texts = [token[0] for token in self.tokens]
        split = texts.index("=") if "=" in texts else len(texts)
        return f"{''.join(texts[:split])} = {' '.join(texts[split + 1 :])}"


def keep_unresolved(text: str, names: set[str] | None) -> str:
    """The text with strom's options in place of those with these names, or of all custom ones."""
    parts, end = [], 0
    for option in _options(text):
        name = option.name
        if name in names if names is not None else name.startswith("(") and name not in OWN:
            parts.append(text[end : option.tokens[0].start()])
            parts.append(f"(.strom.unresolved.{option.kind}.text) = {_quoted(option.text)}")
            end = option.tokens[-1].end()
    return "".join([*parts, text[end:]])


def _options(text: str) -> Iterator[Option]:
    blocks: list[str] = []
    words: list[str] = []  # the first ones of the statement
    tokens = (found for found in _TOKEN.finditer(text) if found["token"])
    for token in tokens:
        mark = token[0]
        if mark == "[":
            kind = "ExtensionRange" if words[:1] == ["extensions"] else "Field"
            if blocks[-1:] == ["enum"]:
                kind = "EnumValue"
            yield from _in_brackets(kind, _until("]", next(tokens, token), tokens))
        elif mark == "{":
            # A group has a label before its keyword.
            blocks.append("group" if "group" in words[:2] else words[0] if words else "")
            words = []
        elif mark in {"}", ";"}:
            if mark == "}" and blocks:
                blocks.pop()
            words = []
        elif mark == "option" and not words:
            found = _until(";", next(tokens, token), tokens)
            yield from _option(_BLOCKS.get(blocks[-1], "") if blocks else "File", found[:-1])
        elif len(words) < WORDS:
            words.append(mark)


def _in_brackets(kind: str, tokens: list[re.Match[str]]) -> Iterator[Option]:
    depth, entry = 0, list[re.Match[str]]()
    for token in tokens[:-1]:
        mark = token[0]
        depth += (mark in _OPENING) - (mark in _CLOSING)
        if mark == "," and not depth:
            yield from _option(kind, entry)
            entry = []
        else:
            entry.append(token)
    yield from _option(kind, entry)


def _option(kind: str, tokens: list[re.Match[str]]) -> Iterator[Option]:
    if kind and tokens:
        yield Option(kind, tokens)


def _until(end: str, first: re.Match[str], tokens: Iterator[re.Match[str]]) -> list[re.Match[str]]:
    """The tokens from `first` to one that ends them outside all brackets, which is the last of them."""
    depth, found = 0, [first]
    mark = first[0]
    while depth or mark != end:
        depth += (mark in _OPENING) - (mark in _CLOSING)
        token = next(tokens, None)
        if token is None:
            break
        found.append(token)
        mark = token[0]
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
