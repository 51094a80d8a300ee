"""Chance, with a seed that is printed."""

from tests.crash.conftest import chance

__all__ = ["chance"]
