"""Compares objects and arrays.

The content model decides. An open one accepts unlisted properties with any value; a closed one rejects
them; a partially open one accepts those that match a schema. A property that the reader adds restricts
nothing if the writer's model was closed, because no data has it; with an open one, data may already have
anything there.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from strom.registry.formats.json_schema.combinations import Comparer
from strom.registry.formats.json_schema.nodes import Anything, Array, Nothing, Object, SchemaNode
from strom.registry.formats.json_schema.scalars import bounds
from strom.registry.formats.schema import Problem


def objects(comparer: Comparer, reader: Object, writer: Object) -> Iterator[Problem]:
    yield from _required(reader, writer)
    for name in dict.fromkeys((*writer.properties, *reader.properties)):
        path = f"properties/{name}"
        mine, other = reader.properties.get(name), writer.properties.get(name)
        if mine is None and other is not None:
            yield from _property_gone(comparer, reader, name, other, path)
        elif mine is not None and other is None:
            yield from _property_new(comparer, reader, writer, name, mine, path)
        elif mine is not None and other is not None:
            yield from comparer.compare(mine, other, path)
    yield from _dependencies(comparer, reader, writer)
    yield from _patterns(comparer, reader, writer)
    for word, mine, other in (
        ("additionalProperties", reader.additional, writer.additional),
        ("unevaluatedProperties", reader.unevaluated, writer.unevaluated),
        ("propertyNames", reader.names, writer.names),
    ):
        yield from _others(comparer, word, mine, other)
    yield from bounds(reader.bounds, writer.bounds)


def _required(reader: Object, writer: Object) -> Iterator[Problem]:
    for name in sorted(reader.required - writer.required):
        mine = reader.properties.get(name)
        new = mine is not None and name not in writer.properties
        if not new and not (mine is not None and mine.has_default):
            text = f"the reader requires {name}, the writer does not"
            yield Problem("REQUIRED_ATTRIBUTE_ADDED", f"required/{name}", text)


def _property_gone(
    comparer: Comparer, reader: Object, name: str, other: SchemaNode, path: str
) -> Iterator[Problem]:
    rest = _rest(reader, name)
    if isinstance(rest, Nothing):
        if not isinstance(other, Nothing):
            text = f"the reader has no property {name} and rejects unlisted ones"
            yield Problem("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, text)
    elif rest is not None and (found := comparer.compare(rest, other, path)):
        yield from found
        text = f"the reader's schema for unlisted properties does not cover {name}"
        yield Problem("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, text)


def _property_new(
    comparer: Comparer, reader: Object, writer: Object, name: str, mine: SchemaNode, path: str
) -> Iterator[Problem]:
    rest = _rest(writer, name)
    lacking = name in reader.required - writer.required and not mine.has_default
    if rest is None:
        if isinstance(mine, Anything) and not lacking:
            return
        sort = "REQUIRED" if name in reader.required else "OPTIONAL"
        text = f"the reader's property {name} is new, but the writer accepts any value there"
        yield Problem(f"{sort}_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, text)
        return
    if not isinstance(rest, Nothing) and (found := comparer.compare(mine, rest, path)):
        yield from found
        text = f"the reader's property {name} is new, but the writer accepts other values there"
        yield Problem("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, text)
    if lacking:
        text = f"the reader requires {name}, which the writer does not have"
        yield Problem("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path, text)


def _rest(node: Object, name: str) -> SchemaNode | None:
    """The schema of an unlisted property: None if the model is open."""
    for pattern, schema in node.patterns.items():
        if _matches(pattern, name):
            return schema
    return node.additional if node.additional is not None else node.unevaluated


def _matches(pattern: str, name: str) -> bool:
    return bool(_pattern(pattern).is_valid(name))


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> Any:
    # jsonschema-rs implements JavaScript's expressions, as the specification asks, in linear time.
    import jsonschema_rs

    return jsonschema_rs.Draft7Validator({"pattern": pattern})


def _patterns(comparer: Comparer, reader: Object, writer: Object) -> Iterator[Problem]:
    for pattern, other in writer.patterns.items():
        path = f"patternProperties/{pattern}"
        mine = reader.patterns.get(pattern) or reader.additional or reader.unevaluated
        if mine is not None and (found := comparer.compare(mine, other, path)):
            yield from found
    for pattern, mine in reader.patterns.items():
        if pattern not in writer.patterns:
            yield from _pattern_new(comparer, pattern, mine, writer)


def _pattern_new(
    comparer: Comparer, pattern: str, mine: SchemaNode, writer: Object
) -> Iterator[Problem]:
    path = f"patternProperties/{pattern}"
    for name, other in writer.properties.items():
        if _matches(pattern, name):
            yield from comparer.compare(mine, other, path)
    rest = writer.additional if writer.additional is not None else writer.unevaluated
    if rest is None and not isinstance(mine, Anything):
        text = f"the reader restricts properties like {pattern!r}, the writer does not"
        yield Problem("PATTERN_PROPERTY_ADDED", path, text)
    elif rest is not None:
        yield from comparer.compare(mine, rest, path)


def _dependencies(comparer: Comparer, reader: Object, writer: Object) -> Iterator[Problem]:
    for name, needed in reader.dependent_names.items():
        before = writer.dependent_names.get(name)
        if before is None or not needed <= before:
            rule = "ADDED" if before is None else "EXTENDED" if needed > before else "CHANGED"
            text = f"the reader requires {', '.join(sorted(needed))} beside {name}"
            yield Problem(f"DEPENDENCY_ARRAY_{rule}", f"dependencies/{name}", text)
    for name, mine in reader.dependent_schemas.items():
        other = writer.dependent_schemas.get(name)
        if other is None:
            text = f"the reader restricts objects that have {name}, the writer does not"
            yield Problem("DEPENDENCY_SCHEMA_ADDED", f"dependencies/{name}", text)
        else:
            yield from comparer.compare(mine, other, f"dependencies/{name}")


def _others(
    comparer: Comparer, word: str, mine: SchemaNode | None, other: SchemaNode | None
) -> Iterator[Problem]:
    """Compare the schemas of unlisted properties or items."""
    if mine is None:
        return
    rule = re.sub(r"(?=[A-Z])", "_", word).upper()
    if isinstance(mine, Nothing):
        if not isinstance(other, Nothing):
            yield Problem(
                f"{rule}_REMOVED", word, f"the reader rejects {word}, the writer accepts them"
            )
    elif other is None:
        yield Problem(f"{rule}_NARROWED", word, f"the reader restricts {word}, the writer does not")
    else:
        yield from comparer.compare(mine, other, word)


def arrays(comparer: Comparer, reader: Array, writer: Array) -> Iterator[Problem]:
    yield from _every_item(comparer, reader, writer)
    for index in range(max(len(reader.first), len(writer.first))):
        path = f"items/{index}"
        if index >= len(reader.first):
            yield from _item_gone(comparer, reader, writer.first[index], path)
        elif index >= len(writer.first):
            yield from _item_new(comparer, reader.first[index], writer, path)
        else:
            yield from comparer.compare(reader.first[index], writer.first[index], path)
    yield from _others(comparer, "additionalItems", reader.additional, writer.additional)
    yield from _others(comparer, "unevaluatedItems", reader.unevaluated, writer.unevaluated)
    if reader.unique and not writer.unique:
        text = "the reader rejects duplicate items, the writer does not"
        yield Problem("UNIQUE_ITEMS_ADDED", "uniqueItems", text)
    if reader.contains is not None:
        if writer.contains is None:
            text = "the reader requires an item that the writer does not"
            yield Problem("CONTAINS_ADDED", "contains", text)
        else:
            yield from comparer.compare(reader.contains, writer.contains, "contains")
    yield from bounds(reader.bounds, writer.bounds)


def _every_item(comparer: Comparer, reader: Array, writer: Array) -> Iterator[Problem]:
    if reader.every is None:
        return
    if writer.every is None:
        text = "the reader restricts all items, the writer does not"
        yield Problem("SCHEMA_ADDED", "items", text)
    else:
        yield from comparer.compare(reader.every, writer.every, "items")


def _item_gone(
    comparer: Comparer, reader: Array, other: SchemaNode, path: str
) -> Iterator[Problem]:
    rest = _rest_of_items(reader)
    if isinstance(rest, Nothing):
        if not isinstance(other, Nothing):
            text = "the reader rejects an item here"
            yield Problem("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, text)
    elif rest is not None and (found := comparer.compare(rest, other, path)):
        yield from found
        text = "the reader's schema for additional items does not cover this one"
        yield Problem("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, text)


def _item_new(comparer: Comparer, mine: SchemaNode, writer: Array, path: str) -> Iterator[Problem]:
    rest = writer.every if writer.every is not None else _rest_of_items(writer)
    if rest is None:
        if not isinstance(mine, Anything):
            text = "the reader restricts this item, but the writer accepts any value there"
            yield Problem("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path, text)
    elif not isinstance(rest, Nothing) and (found := comparer.compare(mine, rest, path)):
        yield from found
        text = "the reader restricts this item, but the writer accepts other values there"
        yield Problem("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, text)


def _rest_of_items(node: Array) -> SchemaNode | None:
    """The schema of an unlisted item."""
    return node.additional if node.additional is not None else node.unevaluated
