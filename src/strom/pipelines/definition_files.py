"""Finds the files of a project that define streams and views.

No other file is executed: a script next to them may produce records, or wait for some.
"""

from collections import Counter
from pathlib import Path

from strom.model.errors import UserError
from strom.pipelines.settings import FILE, ProjectSettings

VIEWS = "views.py"


def definition_files(folder: Path, settings: ProjectSettings) -> list[Path]:
    """The Python and SQL files to load; UserError if `project.files` is invalid."""
    if settings.files:
        named = [_named(folder, name) for name in settings.files]
        modules = Counter(path.stem for path in named if path.suffix == ".py")
        for stem, times in modules.items():
            if times > 1:  # modules are identified by their names
                raise UserError(f"{folder / FILE}: project.files names {times} files {stem}.py.")
        return named
    python = [folder / VIEWS] if (folder / VIEWS).is_file() else []
    return [*python, *sorted(folder.glob("*.sql"))]


def python_files_beside(folder: Path, settings: ProjectSettings) -> list[str]:
    """Python files of the project's folder that are not loaded, without tests and private modules."""
    loaded = definition_files(folder, settings)
    return [
        path.name
        for path in sorted(folder.glob("*.py"))
        if path not in loaded and not path.name.startswith(("_", "test_", "conftest"))
    ]


def _named(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    place = f"{folder / FILE}: project.files: {name}"
    if not path.is_relative_to(folder):
        raise UserError(f"{place} is outside of the project's folder.")
    if path.suffix not in {".py", ".sql"}:
        raise UserError(f"{place} is neither a .py nor a .sql file.")
    if not path.is_file():
        raise UserError(f"{place} does not exist.")
    return path
