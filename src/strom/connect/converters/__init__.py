"""Converters: values with their schema ↔ the bytes of a record's key, value or headers."""

from strom.connect.converters.contract import Converter
from strom.connect.converters.making import CONVERTERS, make_converter, make_header_converter

__all__ = ["CONVERTERS", "Converter", "make_converter", "make_header_converter"]
