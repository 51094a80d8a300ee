"""What is read from a .proto text before the compiler gets it: right, and linear in its length."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.registry.formats.protobuf.scanning import (
    code_of,
    declares_syntax,
    deepest_nesting,
    imported_paths,
    max_dots_in_name,
)
from strom.registry.formats.protobuf.schema import ProtobufSchema
from strom.registry.formats.schema import InvalidSchema

MEGABYTE = 1_000_000


def repeated(piece, before=""):
    return before + piece * (MEGABYTE // len(piece))


ADVERSARIAL = {
    "slashes": repeated("/"),
    "line comments": repeated("//\n"),
    "opened comments": repeated("/*"),
    "closed comments": repeated("/**/"),
    "almost comments": repeated("/ *"),
    "stars": repeated("*", "/*"),
    "white space": repeated(" "),
    "white space of an import": repeated(" ", "import"),
    "imports": repeated("import "),
    "imports of nothing": repeated('import "";'),
    "unterminated strings": repeated('"\n'),
    "escaped quotes": repeated('\\"', '"'),
    "quotes of both kinds": repeated("\"'"),
    "backslashes": repeated("\\", '"'),
    "one word": repeated("a"),
    "words": repeated("a "),
    "a long name": repeated("a."),
    "dots": repeated(". "),
    "parentheses": repeated("("),
    "closing brackets": repeated("}"),
    "opening brackets": repeated("["),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_the_time_for_a_text_is_linear_in_its_length(name):
    """With a pattern that goes back over this much text, the test would not end."""
    text = ADVERSARIAL[name]
    assert not declares_syntax(text)
    assert list(imported_paths(text)) == []
    code = code_of(text)
    assert len(code) <= len(text)
    assert deepest_nesting(code) in (0, len(text))
    assert max_dots_in_name(code) in (0, len(text) // 2)


@pytest.mark.timeout(60)
def test_a_text_of_slashes_is_an_empty_file():
    assert ProtobufSchema.parse("/" * 60, ()).file.message_type == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["opened comments", "escaped quotes", "white space of an import"])
def test_texts_that_are_no_schemas_are_refused(name):
    with pytest.raises(InvalidSchema):
        ProtobufSchema.parse(ADVERSARIAL[name], ())


SPACES = st.sampled_from(["", " ", "\n", "\t ", '// a line {{[ "\n', "/* a {< * comment ' */"])
PIECES = st.sampled_from(
    [
        'import "confluent/meta.proto";',
        "import public 'google/type/date.proto';",
        'import weak "other.proto";',
        "message M {",
        "}",
        'string s = 1 [default = "{\'\\"{{"];',
        "map<string, a.b.c> m = 2;",
        "option (a.b).c = { d: [ 1.5 ] };",
        ".a.b.c",
        "important",
    ]
)


@st.composite
def sane_texts(draw):
    """Texts whose comments and strings are closed."""
    start = draw(st.sampled_from(["", 'syntax = "proto3";', "edition = '2023';", "syntaxes"]))
    text = draw(SPACES) + start
    for piece in draw(st.lists(PIECES, max_size=8)):
        text += draw(SPACES) + " " + piece
    return text


LITERAL_OR_COMMENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)


@given(sane_texts())
def test_sane_texts_are_read_as_by_plain_patterns(text):
    syntax = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*(?:syntax|edition)\b", re.DOTALL)
    imports = re.compile(r"""\bimport\s*(?:public\b|weak\b)?\s*["']([^"'\n]+)["']""")
    assert declares_syntax(text) == (syntax.match(text) is not None)
    assert list(imported_paths(text)) == imports.findall(text)
    code = LITERAL_OR_COMMENT.sub(" ", text)
    depth = deepest = 0
    for bracket in re.findall(r"[{}<>\[\]]", code):
        depth = depth + 1 if bracket in "{<[" else max(0, depth - 1)
        deepest = max(deepest, depth)
    assert code_of(text) == code
    assert deepest_nesting(code) == deepest
    for dots in range(1, 5):
        long_name = re.compile(rf"(?:[\w()]+\s*\.\s*){{{dots}}}")
        assert (max_dots_in_name(code) >= dots) == (long_name.search(code) is not None)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('import /* the */ public // one\n "a.proto";', ["a.proto"]),
        ('// import "a.proto"\n/* import "b.proto" */', []),
        ("option a = 'import \"a.proto\"';", []),
        ('my_import "a.proto"; import a "b.proto"; import "', []),
    ],
)
def test_imports_are_those_that_the_compiler_sees(text, paths):
    assert list(imported_paths(text)) == paths


def test_a_string_ends_with_its_line_even_after_a_backslash():
    assert deepest_nesting(code_of('"\\\n{{{"')) == 3


@pytest.mark.timeout(60)
@pytest.mark.parametrize("hiding", ["//\0", "/*\0", "'\0", '"\\\0'])
def test_a_comment_or_string_ends_with_a_nul_character(hiding):
    """As for the compiler, which would go down all these levels."""
    groups = "optional group A = 1 {" * 1000
    with pytest.raises(InvalidSchema, match="nested more than 100 levels"):
        ProtobufSchema.parse(f'syntax = "proto2"; message M {{ {hiding} {groups}', ())
