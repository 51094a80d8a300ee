"""Definitions as JSON beside what they have computed; only the functions of `prepare` are stored as code.

Serving or listing a view needs the JSON alone. The code (a pickle of the functions, nothing else) is
loaded only to continue computing with an earlier definition, like the project's own files.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from strom.model.errors import UserError
from strom.pipelines import measures as _all_measures  # noqa: F401 - registers their classes
from strom.pipelines.definitions.keys import Window
from strom.pipelines.definitions.place import SourceLocation
from strom.pipelines.definitions.stream import Stream, Table
from strom.pipelines.definitions.view import EXPECTATIONS, Key, Prepare, View
from strom.pipelines.measures.measure import Measure
from strom.pipelines.project_code import pickled, unpickled
from strom.pipelines.views.static_tables import with_copies
from strom.supervision.durable_files import write_atomically

DEFINITION = "definition.json"
FUNCTIONS = "prepare.pickle"


def store(view: View, folder: Path) -> None:
    """Write a definition into a folder."""
    functions = [step.prepare for step in view.steps if step.prepare]
    if functions:
        write_atomically(folder / FUNCTIONS, pickled(functions))
    text = json.dumps(to_json(view), indent=1, ensure_ascii=False)
    write_atomically(folder / DEFINITION, text.encode())


def load(folder: Path, *, to_compute: bool) -> View:
    """Read a definition. Functions are loaded only `to_compute`; else calling them fails."""
    path = folder / DEFINITION
    try:
        values = json.loads(path.read_text("utf-8"))
        functions = _functions(folder) if to_compute else None
        return with_copies(from_json(values, functions), folder.parents[2])
    except FileNotFoundError:
        raise UserError(f"{path} is missing: compute the view again with `strom replay`.") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a definition of a view ({error}).") from None


def to_json(view: View) -> dict[str, Any]:
    """Plain values; of a function, only its presence."""
    reads = view.reads
    return {
        "name": view.name,
        "reads": {"stream": _plain(reads)}
        if isinstance(reads, Stream)
        else {"view": to_json(reads)},
        "keys": [key if isinstance(key, str) else _plain(key) for key in view.keys],
        "measures": {
            name: {"measure": type(one).__name__, **_plain(one)}
            for name, one in view.measures.items()
        },
        "columns": dict(view.columns),
        "where": view.where,
        "select": list(view.select),
        **{word: dict(getattr(view, word)) for word in EXPECTATIONS},
        "tables": {name: _stored_table(table) for name, table in view.tables.items()},
        "prepare": view.prepare is not None,
        "place": _plain(view.place) if view.place else None,
    }


def from_json(values: Mapping[str, Any], functions: list[Prepare] | None = None) -> View:
    """The view of plain values; its functions in the order of its steps, or none that can be called."""
    reads: Stream | View
    if "view" in values["reads"]:
        reads = from_json(values["reads"]["view"], functions)
    else:
        stream = values["reads"]["stream"]
        reads = Stream(**{**stream, "place": _place(stream["place"])})
    prepare: Prepare | None = None
    if values["prepare"]:
        prepare = _not_loaded if functions is None else functions.pop(0)
    return View(
        reads=reads,
        keys=[_key(key) for key in values["keys"]],
        measures={name: _measure(one) for name, one in values["measures"].items()},
        columns=values["columns"],
        where=values["where"],
        select=values["select"],
        **{word: values[word] for word in EXPECTATIONS},
        prepare=prepare,
        tables={
            name: Table(**{**table, "place": _place(table["place"])})
            for name, table in values["tables"].items()
        },
        name=values["name"],
        place=_place(values["place"]),
    )


def _stored_table(table: Table) -> dict[str, Any]:
    """Without the path of its copy: a project may be moved."""
    values = _plain(table)
    del values["copy"]
    return values


def _plain(value: Any) -> dict[str, Any]:
    return dataclasses.asdict(value)


def _key(values: str | dict[str, Any]) -> Key:
    if isinstance(values, str):
        return values
    return Window(**{**values, "place": _place(values["place"])})


def _measure(values: Mapping[str, Any]) -> Measure:
    known = {kind.__name__: kind for kind in _kinds_of(Measure)}
    given = {name: value for name, value in values.items() if name != "measure"}
    made: Measure = known[values["measure"]](**given)
    return made


def _kinds_of(kind: Any) -> list[Any]:
    return [kind, *(inner for one in kind.__subclasses__() for inner in _kinds_of(one))]


def _place(values: dict[str, Any] | None) -> SourceLocation | None:
    return SourceLocation(**values) if values else None


def _functions(folder: Path) -> list[Prepare]:
    path = folder / FUNCTIONS
    if not path.exists():
        return []
    functions: list[Prepare] = unpickled(path.read_bytes())  # written by this project
    return functions


def _not_loaded(*_: Any, **__: Any) -> NoReturn:
    raise UserError("This definition was loaded without its functions.")
