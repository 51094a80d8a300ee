"""strom: a streaming data platform for Python."""

__version__ = "0.1.1"
