import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from strom.model.errors import ApiError, ErrorCode


def test_the_codes_are_kafkas():
    theirs = {code.value: code.retriable for code in KioErrorCode}
    assert {int(code): code.retriable for code in ErrorCode} == theirs


def test_the_names_are_kafkas():
    theirs = {code.value: code.name.upper() for code in KioErrorCode}
    assert {int(code): code.name for code in ErrorCode} == theirs


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_is_explained_in_one_sentence(code):
    assert code.text[0].isupper() or code.text[0] == "`"
    assert code.text.endswith(".")
    assert len(code.text) <= 100


def test_no_two_codes_have_the_same_text():
    assert len({code.text for code in ErrorCode}) == len(ErrorCode)


def test_an_error_has_its_codes_meaning_unless_given_a_message():
    assert ApiError(ErrorCode.INVALID_CONFIG).message == ErrorCode.INVALID_CONFIG.text
    assert str(ApiError(ErrorCode.INVALID_CONFIG, "`x` is unknown.")) == "`x` is unknown."
