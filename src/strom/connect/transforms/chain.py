"""The transforms of a connector, in the order of its settings.

```
transforms=route,hide
transforms.route.type=RegexRouter
transforms.route.regex=old-(.*)
transforms.route.replacement=new-$1
transforms.route.predicate=fromOld
transforms.hide.type=MaskField$Value
transforms.hide.fields=password
predicates=fromOld
predicates.fromOld.type=TopicNameMatches
predicates.fromOld.pattern=old-.*
```
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from strom.connect.api import InvalidSettings
from strom.connect.api.settings import read_nested
from strom.connect.plugins import find_named
from strom.connect.transforms.catalogue import PREDICATES, TRANSFORMS, TransformPlugin
from strom.connect.transforms.contract import PartTransform, Predicate, R, Transform

_OWN = {"transforms": ("type", "predicate", "negate"), "predicates": ("type",)}


class _Step(NamedTuple):
    transform: Transform
    predicate: Predicate | None
    negate: bool


class Chain:
    """Applies the transforms in order; falsy if there are none."""

    def __init__(self, steps: Iterable[_Step]) -> None:
        self._steps = tuple(steps)

        self.on_columns: tuple[PartTransform, ...] | None = _on_columns(self._steps)
        """The transforms, if all of them support columns."""

    def __bool__(self) -> bool:
        return bool(self._steps)

    def __call__(self, record: R) -> R | None:
        """The record after all transforms; None if one dropped it."""
        for transform, predicate, negate in self._steps:
            if predicate is None or predicate.test(record) is not negate:
                changed = transform.apply(record)
                if changed is None:
                    return None
                record = changed
        return record


def _on_columns(steps: Iterable[_Step]) -> tuple[PartTransform, ...] | None:
    found = []
    for transform, predicate, _ in steps:
        if predicate is not None or not isinstance(transform, PartTransform):
            return None
        if not transform.works_on_columns:
            return None
        found.append(transform)
    return tuple(found)


def make_chain(settings: Mapping[str, str]) -> Chain:
    """Create the transforms of a connector's settings; InvalidSettings has every problem."""
    problems: dict[str, list[str]] = {}
    predicates: dict[str, Predicate] = {}
    for alias in _aliases(settings, "predicates"):
        with _collected(problems):
            predicates[alias] = _made(settings, "predicates", alias, PREDICATES)
    steps: list[_Step] = []
    for alias in _aliases(settings, "transforms"):
        with _collected(problems):
            steps.append(_step(settings, alias, predicates))
    if problems:
        raise InvalidSettings(problems)
    return Chain(steps)


@contextlib.contextmanager
def _collected(problems: dict[str, list[str]]) -> Iterator[None]:
    try:
        yield
    except InvalidSettings as error:
        for name, texts in error.problems.items():
            problems.setdefault(name, []).extend(texts)


def _aliases(settings: Mapping[str, str], group: str) -> list[str]:
    listed = settings.get(group, "").split(",")
    return list(dict.fromkeys(alias.strip() for alias in listed if alias.strip()))


def _made(
    settings: Mapping[str, str], group: str, alias: str, kinds: tuple[TransformPlugin, ...]
) -> Any:
    """The configured transform or predicate."""
    prefix, what = f"{group}.{alias}.", group[:-1]
    place = f"{prefix}type"
    if not settings.get(place):
        raise InvalidSettings({place: [f"The {what} {alias} has no type: set {place}."]})
    by_name = {known: kind for kind in kinds for known in (kind.name, kind.class_name)}
    kind = find_named(by_name, settings[place], place, what)
    own = {
        name.removeprefix(prefix): text
        for name, text in settings.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in _OWN[group]
    }
    return kind.make(read_nested(kind.settings_class(), own, prefix))


def _step(settings: Mapping[str, str], alias: str, predicates: Mapping[str, Predicate]) -> _Step:
    transform = _made(settings, "transforms", alias, TRANSFORMS)
    place = f"transforms.{alias}.predicate"
    named = settings.get(place)
    if named and named not in _aliases(settings, "predicates"):
        raise InvalidSettings(
            {place: [f"Unknown predicate {named}; add it to the setting predicates."]}
        )
    negate = settings.get(f"transforms.{alias}.negate", "false").strip().lower()
    if negate not in ("true", "false"):
        raise InvalidSettings({f"transforms.{alias}.negate": ["It must be true or false."]})
    return _Step(transform, predicates.get(named) if named else None, negate == "true")
