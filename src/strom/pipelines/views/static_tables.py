"""Static tables: copies of their files by content, so that all layers of a version read the same.

A table beside strom.toml may be edited at any time. A version of a view joins with the content that the
files had when it was created: batch, speed layer, replay and rollback read that copy. The files
themselves are read when a command starts; other content is another definition.
"""

import contextlib
import glob
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError
from strom.pipelines.definitions.stream import Stream, Table
from strom.pipelines.definitions.view import View
from strom.pipelines.project import Project
from strom.supervision.durable_files import sync_folder

FOLDER = "tables"
UNUSED_S = 3_600.0
"""The grace period of an unused copy: a view that is being computed may not be listed yet."""


def with_tables(project: Project) -> Project:
    """The project with the current content of its tables, copied to where versions find it."""
    views: dict[int, View] = {}

    def over(view: View) -> View:
        if id(view) not in views:
            reads = view.reads if isinstance(view.reads, Stream) else over(view.reads)
            tables = {name: kept(one, project) for name, one in view.tables.items()}
            views[id(view)] = replace(view, reads=reads, tables=tables)
        return views[id(view)]

    if not any(step.tables for view in project.views.values() for step in view.steps):
        return project
    return replace(project, views={name: over(view) for name, view in project.views.items()})


def kept(table: Table, project: Project) -> Table:
    """A table with its current content, which has been copied."""
    copies = project.data / FOLDER
    content = _content(project.folder, table)
    if not _is_intact(copies, content, table):
        shutil.rmtree(copies / content, ignore_errors=True)
        fresh = copies / f".{uuid.uuid4().hex}"
        try:
            _copy(project.folder, table, fresh)
            # The hash of the copy: another program may be writing to the files.
            content = _content(copies, replace(table, path=fresh.name))
            with contextlib.suppress(OSError):  # another process has created the same copy
                fresh.rename(copies / content)
            sync_folder(copies)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    os.utime(copies / content)
    return replace(table, content=content, copy=str(copies / content))


def _is_intact(copies: Path, content: str, table: Table) -> bool:
    """Whether a copy exists and matches its hash: a crash may have truncated it."""
    try:
        return _content(copies, replace(table, path=content)) == content
    except DefinitionError:
        return False


def with_copies(view: View, data: Path) -> View:
    """A stored definition with the paths of its tables' copies."""
    reads = view.reads if isinstance(view.reads, Stream) else with_copies(view.reads, data)
    tables = {
        name: replace(one, copy=str(data / FOLDER / one.content)) if one.content else one
        for name, one in view.tables.items()
    }
    return replace(view, reads=reads, tables=tables)


def sweep_tables(project: Project, *, unused_s: float = UNUSED_S) -> int:
    """Remove copies that no version uses any more; returns their number."""
    folder = project.data / FOLDER
    if not folder.exists():
        return 0
    try:
        used = _named(project)
    except UserError:  # a definition that cannot be read may use any of them
        return 0
    due = [
        path
        for path in folder.iterdir()
        if path.name not in used and path.stat().st_mtime <= time.time() - unused_s
    ]
    for path in due:
        shutil.rmtree(path, ignore_errors=True)
    return len(due)


def _named(project: Project) -> set[str]:
    """The contents that the definitions of all versions use."""
    from strom.pipelines.views.versions import definition_of

    manifests = project.manifests
    views = [
        definition_of(manifests, name, version)
        for name in manifests.names()
        for version in manifests.existing(name).versions
    ]
    return {
        table.content for view in views for step in view.steps for table in step.tables.values()
    }


def table_path(table: Table, folder: Path) -> Path:
    """The path to read for a table: the copy, or, if the version has none, the project's files."""
    if not table.content:
        return folder / table.path
    if not table.copy or not Path(table.copy).exists():
        raise DefinitionError(
            table.place,
            f"The copy of table {table.path} that this version was computed with is missing in "
            f"{Path(table.copy).parent}. Compute the view again with `strom replay`.",
        )
    return Path(table.copy)


def _content(folder: Path, table: Table) -> str:
    """A hash of the names and bytes of all files."""
    whole = hashlib.sha256()
    for name, path in _files(folder, table):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{digest} {name}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _copy(folder: Path, table: Table, target: Path) -> None:
    for name, path in _files(folder, table):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as source, (target / name).open("wb") as copy:
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())


def _files(folder: Path, table: Table) -> Iterator[tuple[str, Path]]:
    """The data files of a table with their names in the table, sorted; hidden files are skipped."""
    root = folder / table.path
    if root.is_file():
        found = [(root.name, root)]
    elif root.is_dir():
        found = [(path.relative_to(root).as_posix(), path) for path in root.rglob("*")]
    else:
        found = _matching(root)
    shown = [
        (name, path)
        for name, path in sorted(found)
        if path.is_file() and not any(part.startswith((".", "_")) for part in name.split("/"))
    ]
    if not shown:
        raise DefinitionError(table.place, f"Table {table.path}: there are no files at {root}.")
    yield from shown


def _matching(pattern: Path) -> list[tuple[str, Path]]:
    """The files of a pattern, such as `pages/*.csv`, named from its first part with a wildcard."""
    base = next(one for one in pattern.parents if not glob.has_magic(str(one)))
    inner = pattern.relative_to(base)
    paths = [base / one for one in glob.glob(str(inner), root_dir=base, recursive=True)]
    return [(path.relative_to(base).as_posix(), path) for path in paths]
