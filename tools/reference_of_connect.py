"""The pages of docs/reference/ on converters and transforms, from their declared settings."""

from collections.abc import Callable, Iterable

from strom.connect.api import ConnectorSettings
from strom.connect.converters import CONVERTERS
from strom.connect.transforms import PREDICATES, TRANSFORMS
from strom.model.settings import Definition

Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], str]


def converters(table: Table) -> str:
    """Every converter with its names and settings."""
    parts = [
        "# Converters\n\nNamed in `key.converter`, `value.converter` and `header.converter` by the "
        "short or the full name; settings follow the same prefix, as in "
        "`value.converter.schemas.enable=false`.\n"
    ]
    for plugin in CONVERTERS:
        loaded = plugin.load()
        parts.append(f"\n## {plugin.name}\n\n`{plugin.class_name}`\n\n{_first_line(loaded)}\n")
        parts.append(_settings(loaded.settings_class, table))
    return "".join(parts)


def transforms(table: Table) -> str:
    """Every transform and predicate with its settings."""
    parts = [
        "# Transforms and predicates\n\nA transform is named in `transforms.ALIAS.type`, a predicate in "
        "`predicates.ALIAS.type`, by the short name or Kafka's full one "
        "(`org.apache.kafka.connect.transforms.…`). Most transforms come for keys and for values: "
        "`Cast$Key`, `Cast$Value`.\n"
    ]
    shown = set()
    for kind in (*TRANSFORMS, *PREDICATES):
        name = kind.name.partition("$")[0]
        if name not in shown:
            shown.add(name)
            variants = f"`{name}$Key`, `{name}$Value`" if kind.part else f"`{name}`"
            parts.append(f"\n## {name}\n\n{variants}: {_first_line(kind.load())}\n")
            parts.append(_settings(kind.settings_class(), table))
    return "".join(parts)


def _first_line(documented: type) -> str:
    return (documented.__doc__ or "").partition("\n")[0]


def _settings(declared: type[ConnectorSettings], table: Table) -> str:
    rows = [
        (f"`{definition.name}`", _default(definition), definition.doc)
        for definition in declared.definitions().values()
    ]
    return "\n" + table(("setting", "default", "what it does"), rows) if rows else ""


def _default(definition: Definition) -> str:
    if getattr(definition, "required", False):
        return "(required)"
    if definition.default is None:
        return ""
    return f"`{definition.documented_default}`" if definition.default != () else ""
