"""Converters: values with their schema ↔ the bytes of a record's key, value or headers."""

from strom.connect.converters.contract import Converter, HeaderConverter
from strom.connect.converters.making import (
    CONVERTERS,
    DEFAULT_HEADER_CONVERTER,
    converter_settings,
    make_converter,
    make_header_converter,
)

__all__ = [
    "CONVERTERS",
    "DEFAULT_HEADER_CONVERTER",
    "Converter",
    "HeaderConverter",
    "converter_settings",
    "make_converter",
    "make_header_converter",
]
