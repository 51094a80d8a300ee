"""A connector's settings, declared once: validation, REST responses and docs are derived from them.

```python
@dataclass(frozen=True, kw_only=True)
class FileSourceSettings(ConnectorSettings):
    file: str = setting("file", Kind.STRING, "The file to read.", required=True)
    batch_size: int = setting("batch.size", Kind.INT, "Lines to read at once.", 2000, minimum=1)
```
"""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from strom.connect.api.errors import InvalidSettings
from strom.model.errors import ApiError
from strom.model.settings import Definition, Kind, Settings, declared

__all__ = ["ConnectorSettings", "Importance", "Kind", "SettingDefinition", "setting"]


class Importance(Enum):
    """The importance of a setting, as in Kafka's validation responses."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


@dataclass(frozen=True, kw_only=True)
class SettingDefinition(Definition):
    """The definition of one setting of a connector."""

    required: bool = False
    importance: Importance = Importance.MEDIUM
    group: str | None = None
    """The heading under which forms show it."""
    display_name: str | None = None


def setting(
    name: str,
    kind: Kind,
    doc: str,
    default: Any = None,
    *,
    required: bool = False,
    importance: Importance = Importance.MEDIUM,
    **more: Any,
) -> Any:
    """Declare a field of a settings class together with its definition.

    A setting that is neither required nor has a default is None if it is not configured.
    """
    definition = SettingDefinition(
        name=name,
        kind=kind,
        default=default,
        doc=doc,
        required=required,
        importance=Importance.HIGH if required else importance,
        **more,
    )
    return dataclasses.field(
        default=default, repr=kind is not Kind.PASSWORD, metadata={"definition": definition}
    )


@dataclass(frozen=True, kw_only=True)
class ConnectorSettings(Settings):
    """Base class of the settings of every connector."""

    def __init_subclass__(cls) -> None:
        # The name up to 0.1.1: a check of a connector's author must not be skipped in silence.
        if "clashes" in vars(cls):
            raise TypeError(
                f"{cls.__name__}.clashes is not called any more: rename it to validate."
            )

    @classmethod
    def read(cls, texts: Mapping[str, str], *, known_elsewhere: Iterable[str] = ()) -> Self:
        """Parse a configuration; InvalidSettings has the problems of every invalid or missing setting.

        A name that neither this class nor `known_elsewhere` (the runtime's settings) declares is
        rejected, with the nearest known one.
        """
        problems: dict[str, list[str]] = {}
        fields = declared(cls)
        others = set(known_elsewhere)
        for name in texts:
            if name not in fields and name not in others:
                hint = did_you_mean(name, [*fields, *others])
                problems[name] = [f"Unknown setting {name}.{hint}"]
        values: dict[str, Any] = {}
        for name, (attribute, definition) in fields.items():
            required = getattr(definition, "required", False)
            text = texts.get(name)
            try:
                if text or (text == "" and not _may_be_empty(definition)):
                    values[attribute] = definition.parse(text)
                elif required and text is None:
                    problems[name] = [f'Missing required configuration "{name}": {definition.doc}']
                elif required:
                    problems[name] = [
                        f"Invalid value for configuration {name}: it is empty. {definition.doc}"
                    ]
            except ApiError as error:
                problems[name] = [str(error)]
        if problems:
            raise InvalidSettings(problems)
        made = cls(**values)
        if found := made.validate():
            raise InvalidSettings({name: [text] for name, text in found.items()})
        return made

    def validate(self) -> Mapping[str, str]:
        """Override it to check settings against each other; returns setting → problem and what to do."""
        return {}


def _may_be_empty(definition: Definition) -> bool:
    """Whether an empty string counts as unset; for a number it is invalid."""
    return definition.kind in (Kind.STRING, Kind.PASSWORD, Kind.LIST) and not definition.choices


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A sentence with the known name that is most similar; `otherwise` if none is."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else otherwise


def read_nested(
    settings_class: type[ConnectorSettings], texts: Mapping[str, str], prefix: str
) -> ConnectorSettings:
    """Parse settings whose names have a prefix in the whole configuration: problems have it too."""
    try:
        return settings_class.read(texts)
    except InvalidSettings as error:
        problems = {prefix + name: texts for name, texts in error.problems.items()}
        raise InvalidSettings(problems) from None
