"""Connectors as code: what has to be done so that a cluster has what a project declares."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.model.errors import UserError

DECLARED_BY = "declared.by"
"""The setting that marks a connector as a project's; only such connectors are ever removed."""

Config = Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """What has to be done."""

    create: Mapping[str, Config]
    change: Mapping[str, Config]
    remove: tuple[str, ...]
    keep: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.create or self.change or self.remove)


def plan(project: str, declared: Mapping[str, Config], existing: Mapping[str, Config]) -> Plan:
    """Compare what a project declares with what there is.

    A connector that somebody made by hand under a declared name is taken over; one that another
    project declares is not.
    """
    wanted = {
        name: {**config, "name": name, DECLARED_BY: project} for name, config in declared.items()
    }
    for name in wanted.keys() & existing.keys():
        owner = existing[name].get(DECLARED_BY, project)
        if owner != project:
            raise UserError(
                f"The connector {name} is declared by the project {owner} already. Give one of them "
                "another name."
            )
    return Plan(
        {name: config for name, config in wanted.items() if name not in existing},
        {
            name: config
            for name, config in wanted.items()
            if name in existing and dict(existing[name]) != config
        },
        tuple(
            name
            for name, config in existing.items()
            if config.get(DECLARED_BY) == project and name not in wanted
        ),
        tuple(name for name, config in wanted.items() if existing.get(name) == config),
    )
