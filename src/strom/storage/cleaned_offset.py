"""How far compaction has come in a log. Before that offset there may be gaps, behind it never."""

from strom.model.errors import CorruptData
from strom.storage.checked_text import decode_lines, encode_lines
from strom.storage.files import Files, read_whole, replace_whole

FILE_NAME = "cleaned-offset"


def read_cleaned_offset(files: Files, folder: str) -> int | None:
    """0 if compaction never ran; None if it is not known how far it came."""
    try:
        return int(decode_lines(read_whole(files, f"{folder}/{FILE_NAME}"))[0])
    except FileNotFoundError:
        return 0
    except (CorruptData, ValueError, IndexError):
        return None


def write_cleaned_offset(files: Files, folder: str, offset: int) -> None:
    """Must be on disk before the first gap is."""
    replace_whole(files, folder, FILE_NAME, encode_lines([str(offset)]))
