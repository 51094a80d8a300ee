"""The syntax of RE2's regular expressions, as far as topic names can tell.

Names consist of letters, digits, `.`, `_` and `-`, so a class of characters is the set of those among
them that it holds. There are no back references and no looking around: that is what keeps matching fast.
"""

import string
import unicodedata
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

WORD = frozenset(string.ascii_letters + string.digits + "_")
ALPHABET = WORD | {".", "-"}
MAX_REPEAT = 1000
MAX_DEPTH = 50
"""Deeper parentheses are no pattern that anyone wrote."""


class Edge(Enum):
    """A place between characters."""

    START = "start"
    END = "end"
    WORD_BOUNDARY = "boundary"
    NO_WORD_BOUNDARY = "no boundary"


@dataclass(frozen=True)
class OneOf:
    """Any one of these characters."""

    characters: frozenset[str]


@dataclass(frozen=True)
class Sequence:
    """One part after the other."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True)
class Alternatives:
    """One of the parts."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True)
class Repeated:
    """A part several times; `most` None is without end."""

    part: "Node"
    least: int
    most: int | None


Node: TypeAlias = OneOf | Edge | Sequence | Alternatives | Repeated

_PERL = {
    "d": frozenset(string.digits),
    "w": WORD,
    "s": frozenset[str](),
}
_POSIX = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": ALPHABET,
    "blank": frozenset[str](),
    "cntrl": frozenset[str](),
    "digit": frozenset(string.digits),
    "graph": ALPHABET,
    "lower": frozenset(string.ascii_lowercase),
    "print": ALPHABET,
    "punct": frozenset("._-"),
    "space": frozenset[str](),
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CATEGORIES = {
    "C": ("Cc", "Cf", "Co", "Cs"),
    "L": ("Ll", "Lm", "Lo", "Lt", "Lu"),
    "M": ("Mc", "Me", "Mn"),
    "N": ("Nd", "Nl", "No"),
    "P": ("Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps"),
    "S": ("Sc", "Sk", "Sm", "So"),
    "Z": ("Zl", "Zp", "Zs"),
}
"""Unicode's general categories."""
_SCRIPTS = {
    "Any": ALPHABET,
    "Common": ALPHABET - frozenset(string.ascii_letters),
    "Latin": frozenset(string.ascii_letters),
    **dict.fromkeys(
        ("Arabic", "Armenian", "Cyrillic", "Devanagari", "Georgian", "Greek", "Han", "Hangul"),
        frozenset[str](),
    ),
    **dict.fromkeys(("Hebrew", "Hiragana", "Katakana", "Thai"), frozenset[str]()),
}
"""Scripts; most have nothing to do with topic names."""
_EDGES = {
    "A": Edge.START,
    "z": Edge.END,
    "b": Edge.WORD_BOUNDARY,
    "B": Edge.NO_WORD_BOUNDARY,
}


def parse(text: str) -> Node:
    """The pattern as a tree; ValueError says what is wrong with it."""
    return _Parser(text).parse()


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignores_case = False
        self._depth = 0

    def parse(self) -> Node:
        node = self._alternatives()
        if self._at < len(self._text):
            raise ValueError("unexpected )")
        return node

    # --- looking -------------------------------------------------------------------------------

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise ValueError("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    # --- the grammar ---------------------------------------------------------------------------

    def _alternatives(self) -> Node:
        parts = [self._sequence()]
        while self._skip("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._peek() not in "|)":
            if self._skip("\\Q"):
                parts += self._quoted()
                continue
            parts.append(self._repeated(self._atom()))
        return Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        end = self._text.find("\\E", self._at)
        literal = self._text[self._at : end if end >= 0 else len(self._text)]
        self._at += len(literal) + (2 if end >= 0 else 0)
        return [self._literal(character) for character in literal]

    def _repeated(self, node: Node) -> Node:
        is_repeated = False
        while (times := self._times()) is not None:
            if is_repeated:
                raise ValueError("invalid nested repetition operator")
            is_repeated = True
            self._skip("?")  # lazy or not matters only for what groups capture
            node = Repeated(node, *times)
        return node

    def _times(self) -> tuple[int, int | None] | None:
        for sign, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return times
        if self._peek() != "{":
            return None
        inside, closed, _ = self._text[self._at + 1 :].partition("}")
        least, comma, most = inside.partition(",")
        if not closed or not _is_number(least) or not (most == "" or _is_number(most)):
            return None  # then it is a brace like any other character
        self._at += len(inside) + 2
        upper = int(least) if not comma else int(most) if most else None
        if int(least) > MAX_REPEAT or (upper or 0) > MAX_REPEAT:
            raise ValueError(f"invalid repeat count {{{inside}}}")
        if upper is not None and upper < int(least):
            raise ValueError(f"invalid repeat count {{{inside}}}")
        return int(least), upper

    def _atom(self) -> Node:
        character = self._take()
        match character:
            case "(":
                return self._group()
            case "[":
                return OneOf(self._with_case(self._character_class()))
            case ".":
                return OneOf(ALPHABET)
            case "^":
                return Edge.START
            case "$":
                return Edge.END
            case "*" | "+" | "?":
                raise ValueError(f"missing argument to repetition operator {character}")
            case "{" if self._is_repetition_at(self._at - 1):
                raise ValueError("missing argument to repetition operator {")
            case "\\":
                return self._escape()
        return self._literal(character)

    def _is_repetition_at(self, position: int) -> bool:
        self._at, back = position, self._at
        try:
            return self._times() is not None
        finally:
            self._at = back

    def _literal(self, character: str) -> OneOf:
        return OneOf(self._with_case(frozenset(character)))

    def _with_case(self, characters: frozenset[str]) -> frozenset[str]:
        if self._ignores_case:
            characters |= {one.swapcase() for one in characters}
        return characters & ALPHABET

    def _group(self) -> Node:
        outer = self._ignores_case
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError("expression nests too deeply")
        if self._skip("?"):
            if self._skip("P<") or (self._peek() == "<" and self._peek(2) not in ("<=", "<!")):
                self._skip("<")
                self._group_name()
            elif not self._flags():
                self._depth -= 1
                return Sequence(())  # `(?i)` holds until the group around it ends
        node = self._alternatives()
        if not self._skip(")"):
            raise ValueError("missing closing )")
        self._ignores_case = outer
        self._depth -= 1
        return node

    def _group_name(self) -> None:
        name, closed, _ = self._text[self._at :].partition(">")
        if not closed or not name or not set(name) <= WORD:
            raise ValueError("invalid named capture")
        self._at += len(name) + 1

    def _flags(self) -> bool:
        """Read flags up to `:` (True) or `)` (False)."""
        is_on, count = True, 0
        while True:
            flag = self._take() if self._at < len(self._text) else ""
            if flag in (":", ")") and (is_on or count):
                return flag == ":"
            if flag == "-" and is_on:
                is_on, count = False, 0
            elif flag and flag in "imsU":
                count += 1
                if flag == "i":
                    self._ignores_case = is_on
            else:
                raise ValueError("invalid or unsupported Perl syntax")

    def _escape(self) -> Node:
        if self._at >= len(self._text):
            raise ValueError("trailing backslash at end of expression")
        if self._peek() in _EDGES:
            return _EDGES[self._take()]
        if self._skip("C"):
            return OneOf(ALPHABET)
        named = self._named_class()
        if named is not None:
            return OneOf(self._with_case(named))
        return self._literal(self._escaped_character())

    def _named_class(self) -> frozenset[str] | None:
        """`\\d` and the like, after the backslash."""
        letter = self._peek()
        if letter and letter.lower() in _PERL:
            self._at += 1
            characters = _PERL[letter.lower()]
            return ALPHABET - characters if letter.isupper() else characters
        if letter and letter in "pP":
            self._at += 1
            return self._unicode_class(negated=letter == "P")
        return None

    def _unicode_class(self, *, negated: bool) -> frozenset[str]:
        name = self._take()
        if name == "{":
            name, closed, _ = self._text[self._at :].partition("}")
            self._at += len(name) + 1
            if not closed:
                raise ValueError("invalid character class range")
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name in _CATEGORIES or name in _CATEGORIES.get(name[:1], ()):
            found = frozenset(one for one in ALPHABET if unicodedata.category(one).startswith(name))
        elif name in _SCRIPTS:
            found = _SCRIPTS[name]
        else:
            raise ValueError("invalid character class range")
        return ALPHABET - found if negated else found

    def _escaped_character(self) -> str:
        character = self._take()
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            return self._hexadecimal()
        if character == "0" or (character in "1234567" and self._peek() in set("01234567")):
            digits = character
            while len(digits) < 3 and self._peek() in set("01234567"):
                digits += self._take()
            return chr(int(digits, 8))
        if character.isascii() and not character.isalnum():
            return character
        raise ValueError(f"invalid escape sequence \\{character}")

    def _hexadecimal(self) -> str:
        if self._skip("{"):
            digits, closed, _ = self._text[self._at :].partition("}")
            self._at += len(digits) + 1
        else:
            digits = self._peek(2)
            closed = "}" if len(digits) == 2 else ""
            self._at += 2
        if not closed or not digits or not set(digits) <= set(string.hexdigits):
            raise ValueError("invalid escape sequence \\x")
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise ValueError("invalid escape sequence \\x")
        return chr(code)

    # --- classes in brackets -------------------------------------------------------------------

    def _character_class(self) -> frozenset[str]:
        is_negated = self._skip("^")
        found: set[str] = set()
        is_first = True
        while is_first or self._peek() != "]":
            if self._at >= len(self._text):
                raise ValueError("missing closing ]")
            is_first = False
            found |= self._class_item()
        self._at += 1
        return ALPHABET - self._with_case(frozenset(found)) if is_negated else frozenset(found)

    def _class_item(self) -> frozenset[str]:
        if self._peek(2) == "[:" and ":]" in self._text[self._at + 2 :]:
            return self._posix_class()
        if self._peek() == "\\":
            self._at += 1
            named = self._named_class()
            if named is not None:
                return named
            low = self._escaped_character()
        else:
            low = self._take()
        if self._peek() != "-" or self._peek(2) in ("-]", "-"):
            return frozenset(low)
        self._at += 1
        high = self._take()
        if high == "\\":
            high = self._escaped_character()
        if high < low:
            raise ValueError("invalid character class range")
        return frozenset(one for one in ALPHABET if low <= one <= high)

    def _posix_class(self) -> frozenset[str]:
        name, _, _ = self._text[self._at + 2 :].partition(":]")
        self._at += len(name) + 4
        found = _POSIX.get(name.removeprefix("^"))
        if found is None:
            raise ValueError("invalid character class range")
        return ALPHABET - found if name.startswith("^") else found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
