"""The progress of compaction in a log, stored in `cleaned-offsets`."""

from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.model.settings import LONG_MAX
from strom.storage.checksummed import decode_lines, encode_lines
from strom.storage.files import FileSystem, read_file, replace_file

FILE_NAME = "cleaned-offsets"


class Cleaned(NamedTuple):
    """Offsets may be missing only before the first; records from the second on are not compacted."""

    gaps_before: int = 0
    first_dirty_offset: int = 0


NEVER = Cleaned()
UNKNOWN = Cleaned(gaps_before=LONG_MAX)


def read_cleaned(files: FileSystem, folder: str) -> Cleaned:
    """The stored progress; `NEVER` without a file, `UNKNOWN` for a damaged one."""
    try:
        gaps_before, first_dirty_offset = decode_lines(read_file(files, f"{folder}/{FILE_NAME}"))
        return Cleaned(int(gaps_before), int(first_dirty_offset))
    except FileNotFoundError:
        return NEVER
    except (CorruptData, ValueError):
        return UNKNOWN


def write_cleaned(files: FileSystem, folder: str, cleaned: Cleaned) -> None:
    """Store the progress durably, before the first gap: recovery would take a gap for damage."""
    replace_file(files, folder, FILE_NAME, encode_lines([str(number) for number in cleaned]))
