"""Random JSON Schemas, changed versions of them, and values that they may accept.

Left out is what the rules, which are Confluent's, do not promise to get right: defaults that stand
in for required properties, and `oneOf`, whose parts may come to overlap.
"""

from typing import Any

from hypothesis import strategies as st

Json = Any

NAMES = ("a", "b", "n_c")
SMALL = st.integers(0, 3)
SCALARS: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 6),
    st.sampled_from([0.5, 1.0, 2.5]),
    st.text(alphabet="ab", max_size=4),
)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Json:
    kinds = ["any", "string", "number", "integer", "enum", "const", "types"]
    if depth > 0:
        kinds += ["object", "object", "array", "anyOf", "allOf", "not", "loose"]
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "any":
            return draw(st.sampled_from([True, {}, {"title": "x"}, False, {"type": "null"}]))
        case "string":
            return {
                "type": "string",
                **draw(some(minLength=SMALL, maxLength=SMALL, pattern=PATTERN)),
            }
        case "number" | "integer":
            return {"type": kind, **draw(some(**NUMBERS))}
        case "enum":
            return {"enum": draw(st.lists(SCALARS, min_size=1, max_size=4))}
        case "const":
            return {"const": draw(SCALARS)}
        case "types":
            types = st.sampled_from(["string", "integer", "null", "boolean"])
            return {"type": draw(st.lists(types, min_size=1, max_size=3, unique=True))}
        case "object":
            return {"type": "object", **draw(objects(depth))}
        case "array":
            return {"type": "array", **draw(arrays(depth))}
        case "not":
            return {"not": draw(schemas(depth - 1))}
        case "loose":
            return draw(st.one_of(objects(depth), arrays(depth), some(**NUMBERS)))
        case _:
            return {kind: draw(st.lists(schemas(depth - 1), min_size=1, max_size=3))}


PATTERN = st.sampled_from(["^a", "b"])
NUMBERS: dict[str, st.SearchStrategy[Json]] = {
    "minimum": SMALL,
    "maximum": SMALL,
    "exclusiveMinimum": SMALL,
    "exclusiveMaximum": SMALL,
    "multipleOf": st.sampled_from([0.5, 1, 2, 3]),
}


def some(**words: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Draw some of several keywords."""
    return st.fixed_dictionaries({}, optional=words).filter(lambda drawn: len(drawn) < 4)


@st.composite
def objects(draw: st.DrawFn, depth: int) -> Json:
    inner = schemas(depth - 1)
    names = st.sampled_from(NAMES)
    return draw(
        some(
            properties=st.dictionaries(names, inner, max_size=3),
            patternProperties=st.dictionaries(st.sampled_from(["^n_", "a|b"]), inner, max_size=2),
            additionalProperties=st.one_of(st.booleans(), inner),
            required=st.lists(names, unique=True, max_size=2),
            propertyNames=st.just({"maxLength": 2}),
            minProperties=SMALL,
            maxProperties=SMALL,
            dependencies=st.dictionaries(
                names, st.one_of(inner, st.lists(names, unique=True, max_size=2)), max_size=1
            ),
        )
    )


@st.composite
def arrays(draw: st.DrawFn, depth: int) -> Json:
    inner = schemas(depth - 1)
    return draw(
        some(
            items=st.one_of(inner, st.lists(inner, min_size=1, max_size=2)),
            additionalItems=st.one_of(st.booleans(), inner),
            contains=inner,
            uniqueItems=st.booleans(),
            minItems=SMALL,
            maxItems=SMALL,
        )
    )


@st.composite
def versions(draw: st.DrawFn) -> tuple[Json, Json]:
    """Draw two schemas, mostly versions of one."""
    one = draw(schemas())
    other = draw(changed(one)) if draw(st.integers(0, 4)) else draw(schemas())
    return (one, other) if draw(st.booleans()) else (other, one)


@st.composite
def changed(draw: st.DrawFn, schema: Json) -> Json:
    """Draw a schema that differs in few places."""
    if not isinstance(schema, dict) or draw(st.integers(0, 9)) == 0:
        return draw(schemas(1)) if draw(st.integers(0, 2)) == 0 else schema
    copy = dict(schema)
    for word, value in schema.items():
        if word in ("properties", "patternProperties") and value:
            name = draw(st.sampled_from(sorted(value)))
            copy[word] = {**value, name: draw(changed(value[name]))}
            if draw(st.integers(0, 2)) == 0:
                del copy[word][name]
        elif word in ("items", "additionalProperties", "not", "contains", "additionalItems"):
            copy[word] = value if isinstance(value, list | bool) else draw(changed(value))
        elif word in ("anyOf", "allOf"):
            copy[word] = [draw(changed(part)) for part in value]
            if len(value) > 1 and draw(st.booleans()):
                copy[word].pop()
        elif isinstance(value, int) and not isinstance(value, bool) and word != "const":
            copy[word] = max(1, value + draw(st.integers(-1, 1)))
    if len(copy) > 1 and draw(st.integers(0, 2)) == 0:
        del copy[draw(st.sampled_from(sorted(copy)))]
    return copy


@st.composite
def instances(draw: st.DrawFn, schema: Json, depth: int = 3) -> Json:
    """Draw a value that a schema has good chances to accept."""
    if not isinstance(schema, dict) or depth < 0 or draw(st.integers(0, 7)) == 0:
        return draw(anything(max(depth, 0)))
    for word in ("anyOf", "allOf"):
        if word in schema:
            return draw(instances(draw(st.sampled_from(schema[word])), depth))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    if schema.get("type") == "object" or "properties" in schema:
        return draw(accepted_objects(schema, depth))
    if schema.get("type") == "array" or "items" in schema:
        items = schema.get("items", True)
        firsts = items if isinstance(items, list) else []
        others = schema.get("additionalItems", True) if isinstance(items, list) else items
        length = draw(SMALL)
        return [
            draw(instances(firsts[index] if index < len(firsts) else others, depth - 1))
            for index in range(length)
        ]
    return draw(SCALARS)


@st.composite
def accepted_objects(draw: st.DrawFn, schema: Json, depth: int) -> Json:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    made = {}
    for name in NAMES:
        if name in schema.get("required", ()) or draw(st.booleans()):
            made[name] = draw(instances(properties.get(name, others), depth - 1))
    return made


def anything(depth: int) -> st.SearchStrategy[Json]:
    if depth <= 0:
        return SCALARS
    inner = anything(depth - 1)
    return st.one_of(
        SCALARS,
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    )
