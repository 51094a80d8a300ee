"""Chance, with a seed that is told."""

from tests.crash.conftest import chance

__all__ = ["chance"]
