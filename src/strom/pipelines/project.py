"""A project: a folder with `strom.toml` and the files that define streams and views."""

import importlib.util
import re
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from strom.model.errors import UserError
from strom.pipelines.definitions.place import DefinitionError, SourceLocation, raised_at
from strom.pipelines.definitions.sql_files import read_sql
from strom.pipelines.definitions.stream import Stream
from strom.pipelines.definitions.view import View
from strom.pipelines.measures import count
from strom.pipelines.project_code import MODULE_PREFIX, forget_imported, load_error, loading
from strom.pipelines.settings import FILE, ProjectSettings, read_settings
from strom.pipelines.views.manifests import Manifests
from strom.pipelines.views.reached_code import remember

if TYPE_CHECKING:
    from strom.pipelines.serving.queries import ViewReader

VIEWS = "views.py"
# DuckDB expands some of these as globs; delta-rs cannot encode others in a URL, or decodes them.
_UNSUPPORTED_IN_PATHS = re.compile(r"[*?\[\]|^\\\x00-\x1f]|%[0-9A-Fa-f]{2}")


@dataclass(frozen=True)
class Project:
    """The definitions and settings of a project."""

    folder: Path
    settings: ProjectSettings = field(default_factory=ProjectSettings)
    streams: dict[str, Stream] = field(default_factory=dict)
    """By their variable names."""
    views: dict[str, View] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        """The folder of views, the master dataset and the embedded broker's log."""
        return self.folder / self.settings.data

    @property
    def manifests(self) -> Manifests:
        """The manifests of computed views."""
        return Manifests(self.data / "views")

    @property
    def servers(self) -> str:
        """The bootstrap servers of Kafka."""
        return self.settings.servers or f"127.0.0.1:{self.settings.port}"

    @property
    def read_streams(self) -> list[Stream]:
        """The streams that views read, one per topic."""
        by_topic: dict[str, Stream] = {}
        for name, view in self.views.items():
            known = by_topic.setdefault(view.stream.topic, view.stream)
            if known != view.stream:
                raise DefinitionError(
                    view.place,
                    f"View {name} reads topic {view.stream.topic} with another definition than that "
                    f"at {known.place}.",
                )
        return list(by_topic.values())

    def defined_view(self, name: str) -> View:
        """The view of this name; UserError if no file defines it."""
        if name not in self.views:
            known = ", ".join(self.views) or "none"
            raise UserError(
                f"No file in {self.folder} defines a view {name!r}. Known views: {known}."
                f"{files_not_loaded(self)}"
            )
        return self.views[name]

    @property
    def undefined_views(self) -> list[str]:
        """Computed views that no file defines any longer."""
        defined = {*self.views, *(stream.dead_letter_view for stream in self.read_streams)}
        return [name for name in self.manifests.names() if name not in defined]

    def view(self, name: str) -> "ViewReader":
        """Reads the rows of a view as Arrow or pandas."""
        from strom.pipelines.serving.queries import ViewReader

        return ViewReader(self.manifests, name)

    @property
    def group(self) -> str:
        """The prefix of the project's consumer groups."""
        return f"strom.{self.settings.name}"

    def group_of(self, view: str) -> str:
        """The consumer group whose committed offsets show a view's progress."""
        return f"{self.group}.{view}"


def load_project(folder: Path | str = ".") -> Project:
    """Load `strom.toml` and the files that define views; errors name file and line.

    These are `views.py` and every .sql file next to it, or those of `files` under `[project]`. No other
    Python file is executed unless one of them imports it.
    """
    folder = Path(folder).resolve()
    project = Project(folder, read_settings(folder / FILE))
    forget_imported()
    files = definition_files(folder, project.settings)
    for path in files:
        if path.suffix == ".py":
            _collect(project, vars(_run(path)))
    statements = [(str(path), path.read_text("utf-8")) for path in files if path.suffix == ".sql"]
    streams, views = read_sql(statements, project.streams, project.views)
    project.streams.update(streams)
    _collect(project, dict(views))
    if not project.views:
        raise UserError(f"No file in {folder} defines a view.{files_not_loaded(project)}")
    check_names(project)
    for view in project.views.values():
        for step in view.steps:
            if step.prepare:
                remember(step.prepare)
    return project


def files_not_loaded(project: Project) -> str:
    """A hint about Python files that are not loaded (strom 0.1.0 executed them); empty if none."""
    beside = python_files_beside(project.folder, project.settings)
    if not beside:
        return ""
    return (
        f" Not loaded: {', '.join(beside)}. Define views in views.py, or list the files as "
        f"`files` under [project] in {FILE}."
    )


def check_folder(data: Path) -> None:
    """Raise UserError if a path contains characters that Delta Lake or DuckDB does not support."""
    if found := _UNSUPPORTED_IN_PATHS.search(str(data)):
        raise UserError(
            f"The path {data} contains {found[0]!r}, which Delta Lake and DuckDB do not support in "
            "paths. Rename the folder, or set `data` in strom.toml to another one."
        )


def check_names(project: Project) -> None:
    """Raise DefinitionError if names of views, including those of dead letters, are invalid or conflict.

    SQL and some file systems ignore case in names.
    """
    named = [(view.name, f"view {name}", view.place) for name, view in project.views.items()]
    named += [
        (stream.dead_letter_view, f"the dead letters of {stream.topic}", stream.place)
        for stream in project.read_streams
    ]
    taken: dict[str, str] = {}
    for name, owner, place in named:
        if not name.isidentifier():
            raise DefinitionError(
                place, f"{name!r} is not a valid name of a view: use letters, digits and _ only."
            )
        if (other := taken.setdefault(name.casefold(), owner)) != owner:
            raise DefinitionError(
                place, f"{owner.capitalize()} and {other} have the same name {name}."
            )


def _collect(project: Project, names: dict[str, object]) -> None:
    for name, value in names.items():
        if isinstance(value, Stream):
            project.streams.setdefault(name, value)
        if isinstance(value, View):
            if not value.name:
                # In place, since views that read it refer to this object.
                object.__setattr__(value, "name", name)
            if project.views.setdefault(value.name, value) != value:
                raise DefinitionError(value.place, f"Two views have the name {value.name!r}.")
            if (quality := quality_view(value)) is not None:
                project.views[quality.name] = quality


class _UncachedLoader(SourceFileLoader):
    """Compiles the file as it is now.

    Cached bytecode counts as fresh if size and second of the last change are the same, so it would
    hide an edit that follows another at once.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _run(path: Path) -> ModuleType:
    """Execute a definition file again; DefinitionError has the line of a failure."""
    name = MODULE_PREFIX + path.stem
    spec = importlib.util.spec_from_file_location(
        name, path, loader=_UncachedLoader(name, str(path))
    )
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be loaded as a Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with loading(path.parent):
            spec.loader.exec_module(module)
    except UserError:
        raise
    except SyntaxError as error:
        raise DefinitionError(SourceLocation(str(path), error.lineno or 0), error.msg) from None
    except Exception as error:  # noqa: BLE001 - the user's file may raise anything
        place = raised_at(error, SourceLocation(str(path), 0))
        raise DefinitionError(place, load_error(error)) from None
    return module


def definition_files(folder: Path, settings: ProjectSettings) -> list[Path]:
    """The Python and SQL files to load; UserError if `project.files` is invalid."""
    if settings.files:
        named = [_definition_file(folder, name) for name in settings.files]
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


def _definition_file(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    place = f"{folder / FILE}: project.files: {name}"
    if not path.is_relative_to(folder):
        raise UserError(f"{place} is outside of the project's folder.")
    if path.suffix not in {".py", ".sql"}:
        raise UserError(f"{place} is neither a .py nor a .sql file.")
    if not path.is_file():
        raise UserError(f"{place} does not exist.")
    return path


def quality_view(view: View) -> View | None:
    """The view `NAME_quality` with violations per expectation; None if the view has none to count.

    It is computed as any other view: a row counts once, in batch, speed layer and replay.
    """
    counted = {**view.expect, **view.expect_or_drop}
    if not counted:
        return None
    failed = {
        name: count(f"CASE WHEN coalesce({condition}, false) THEN NULL ELSE 1 END")
        for name, condition in counted.items()
    }
    return replace(
        view,
        keys=(),
        measures={"rows": count(), **failed},
        select=(),
        name=f"{view.name}_quality",
        expect={},
        expect_or_drop={},
        expect_or_fail={},
    )
