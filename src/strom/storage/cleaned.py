"""How far compaction has come in a log."""

from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.model.settings import LONG_MAX
from strom.storage.checked_text import decode_lines, encode_lines
from strom.storage.files import Files, read_whole, replace_whole

FILE_NAME = "cleaned-offsets"


class Cleaned(NamedTuple):
    """Offsets may be missing before the first, never behind it; from the second on nothing is clean."""

    gaps_before: int = 0
    first_dirty_offset: int = 0


NEVER = Cleaned()
UNKNOWN = Cleaned(gaps_before=LONG_MAX)


def read_cleaned(files: Files, folder: str) -> Cleaned:
    """What was noted; nothing, if compaction never ran. A damaged note is `UNKNOWN`."""
    try:
        gaps_before, first_dirty_offset = decode_lines(read_whole(files, f"{folder}/{FILE_NAME}"))
        return Cleaned(int(gaps_before), int(first_dirty_offset))
    except FileNotFoundError:
        return NEVER
    except (CorruptData, ValueError):
        return UNKNOWN


def write_cleaned(files: Files, folder: str, cleaned: Cleaned) -> None:
    """Must be on disk before the first gap is."""
    replace_whole(files, folder, FILE_NAME, encode_lines([str(number) for number in cleaned]))
