"""Random Avro schemas, later versions of them, and values of them."""

from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

Json = Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMES = ("A", "B", "C")
FIELDS = ("a", "b", "c", "d")
SYMBOLS = ("X", "Y", "Z")
DEFAULTS = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "bytes": "x",
    "string": "y",
}


@st.composite
def schemas(draw: st.DrawFn, known: dict[str, Json] | None = None, depth: int = 3) -> Json:
    """Draw a schema; `known` are the named types around it that it may mention."""
    known = {} if known is None else known
    kinds = ["primitive"] * 3
    if depth > 0:
        kinds += ["array", "map", "union", "record", "record", "enum", "fixed"]
    if known:
        kinds += ["mention"]
    kind = draw(st.sampled_from(kinds))
    free = [name for name in NAMES if name not in known]
    if kind in ("record", "enum", "fixed") and not free:
        kind = "mention"
    match kind:
        case "primitive":
            return draw(st.sampled_from(PRIMITIVES))
        case "array":
            return {"type": "array", "items": draw(schemas(known, depth - 1))}
        case "map":
            return {"type": "map", "values": draw(schemas(known, depth - 1))}
        case "union":
            return draw(unions(known, depth))
        case "mention":
            return draw(st.sampled_from(sorted(known)))
        case _:
            return draw(named(kind, draw(st.sampled_from(free)), known, depth))


@st.composite
def unions(draw: st.DrawFn, known: dict[str, Json], depth: int) -> Json:
    keys = st.sampled_from((*PRIMITIVES, "array", "map", *NAMES))
    branches: list[Json] = []
    for key in draw(st.lists(keys, min_size=1, max_size=3, unique=True)):
        match key:
            case "array":
                branches.append({"type": "array", "items": draw(schemas(known, depth - 1))})
            case "map":
                branches.append({"type": "map", "values": draw(schemas(known, depth - 1))})
            case _ if key in PRIMITIVES or key in known:
                branches.append(key)
            case _:
                kind = draw(st.sampled_from(("record", "record", "enum", "fixed")))
                branches.append(draw(named(kind, key, known, depth - 1)))
    return branches


@st.composite
def named(draw: st.DrawFn, kind: str, name: str, known: dict[str, Json], depth: int) -> Json:
    schema: dict[str, Json] = {"type": kind, "name": name}
    known[name] = schema
    others = [other for other in NAMES if other != name]
    if draw(st.booleans()):
        schema["aliases"] = [draw(st.sampled_from(others))]
    match kind:
        case "enum":
            schema["symbols"] = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
            if draw(st.booleans()):
                schema["default"] = schema["symbols"][0]
        case "fixed":
            schema["size"] = draw(st.integers(1, 3))
        case _:
            schema["fields"] = []
            names = draw(st.lists(st.sampled_from(FIELDS), max_size=3, unique=True))
            for part in names:
                schema["fields"].append(draw(fields(part, known, depth)))
    return schema


@st.composite
def fields(draw: st.DrawFn, name: str, known: dict[str, Json], depth: int) -> Json:
    made: dict[str, Json] = {"name": name, "type": draw(schemas(known, depth - 1))}
    kind = made["type"]
    first = kind[0] if isinstance(kind, list) else kind
    if isinstance(first, str) and first in DEFAULTS and draw(st.booleans()):
        made["default"] = DEFAULTS[first]
    if draw(st.integers(0, 3)) == 0:
        made["aliases"] = [draw(st.sampled_from([other for other in FIELDS if other != name]))]
    return made


@st.composite
def versions(draw: st.DrawFn) -> tuple[Json, Json]:
    """Draw two schemas, mostly versions of one."""
    one = draw(schemas())
    other = draw(changed(one)) if draw(st.integers(0, 4)) else draw(schemas())
    return (one, other) if draw(st.booleans()) else (other, one)


@st.composite
def changed(draw: st.DrawFn, schema: Json) -> Json:
    """Draw a schema that differs in some places, and is valid like the first."""
    match schema:
        case str():
            wider = {"int": "long", "float": "double", "string": "bytes", "long": "int"}
            again = draw(st.integers(0, 4))
            return wider.get(schema, schema) if again == 0 else schema
        case list():
            kept = [draw(changed(branch)) for branch in schema]
            unique = {str(one): one for one in kept}
            return (
                list(unique.values()) if len({_key(one) for one in kept}) == len(kept) else schema
            )
    copy: dict[str, Json] = dict(schema)
    for word in ("items", "values"):
        if word in copy:
            copy[word] = draw(changed(copy[word]))
    if "symbols" in copy and draw(st.booleans()):
        others = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
        copy["symbols"] = others
        if "default" in copy:
            copy["default"] = others[0]
    if "fields" in copy:
        copy["fields"] = [draw(changed_field(part)) for part in copy["fields"]]
        taken = {part["name"] for part in copy["fields"]}
        for name in FIELDS:
            if name not in taken and draw(st.integers(0, 3)) == 0:
                copy["fields"].append({"name": name, "type": "int", "default": 7})
        # A field that defines a type others mention cannot go.
        plain = [part for part in copy["fields"] if isinstance(part["type"], str)]
        if draw(st.booleans()) and plain:
            copy["fields"].remove(draw(st.sampled_from(plain)))
    return copy


@st.composite
def changed_field(draw: st.DrawFn, part: Json) -> Json:
    copy = {**part, "type": draw(changed(part["type"]))}
    if "default" in copy:
        first = copy["type"][0] if isinstance(copy["type"], list) else copy["type"]
        del copy["default"]
        if first in DEFAULTS and draw(st.booleans()):
            copy["default"] = DEFAULTS[first]
    return copy


def without_aliases(schema: Json) -> Json:
    """Drop other names of fields: fastavro cannot read two fields from one, as Java's library can."""
    match schema:
        case list():
            return [without_aliases(branch) for branch in schema]
        case dict():
            return {
                word: without_aliases(value)
                for word, value in schema.items()
                if word != "aliases" or "fields" in schema
            }
    return schema


def _key(schema: Json) -> str:
    return schema if isinstance(schema, str) else str(schema.get("name", schema["type"]))


@st.composite
def values(draw: st.DrawFn, schema: Json) -> Any:
    """Draw a value of a schema."""
    return _value(draw, schema, _named_in(schema, {}), 4)


def _named_in(schema: Json, found: dict[str, Json]) -> dict[str, Json]:
    match schema:
        case list():
            for branch in schema:
                _named_in(branch, found)
        case dict():
            if "name" in schema:
                found[schema["name"]] = schema
            for part in schema.get("fields", ()):
                _named_in(part["type"], found)
            for word in ("items", "values"):
                _named_in(schema.get(word), found)
    return found


SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.text(alphabet="xyz", max_size=3).map(str.encode),  # readable as a string too
    "string": st.text(max_size=3),
}


def _value(draw: st.DrawFn, schema: Json, known: dict[str, Json], depth: int) -> Any:
    if depth < -4:
        reject()  # a record that always holds another of its kind has no values
    if isinstance(schema, str):
        return (
            draw(SIMPLE[schema]) if schema in SIMPLE else _value(draw, known[schema], known, depth)
        )
    if isinstance(schema, list):
        branch = draw(st.sampled_from(schema if depth > 0 else schema[:1]))
        value = _value(draw, branch, known, depth - 1)
        # fastavro takes (name, value) for which branch is meant.
        return value if branch == "null" else (_key(branch), value)
    few = range(draw(st.integers(0, 2)) if depth > 0 else 0)
    match schema["type"]:
        case "array":
            return [_value(draw, schema["items"], known, depth - 1) for _ in few]
        case "map":
            return {f"k{key}": _value(draw, schema["values"], known, depth - 1) for key in few}
        case "enum":
            return draw(st.sampled_from(schema["symbols"]))
        case "fixed":
            return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
        case _:
            return {
                part["name"]: _value(draw, part["type"], known, depth - 1)
                for part in schema["fields"]
            }
