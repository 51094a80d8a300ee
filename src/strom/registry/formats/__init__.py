"""The three schema languages: what a text means, when two are the same, who can read whose data."""

from strom.registry.formats.parsing import parse
from strom.registry.formats.schema import InvalidSchema, Kind, Parsed, Reference, Referenced

__all__ = ["InvalidSchema", "Kind", "Parsed", "Reference", "Referenced", "parse"]
