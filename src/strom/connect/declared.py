"""Connectors as code: what to change so that a cluster runs the connectors that a project declares."""

from collections.abc import Mapping
from dataclasses import dataclass

from strom.model.errors import UserError

DECLARED_BY = "declared.by"
"""The setting that marks a connector as declared by a project; only these are ever removed."""

Config = Mapping[str, str]


@dataclass(frozen=True)
class ConnectorPlan:
    """The connectors to create, to change, to remove and to keep."""

    create: Mapping[str, Config]
    change: Mapping[str, Config]
    remove: tuple[str, ...]
    keep: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.create or self.change or self.remove)


def plan(
    project: str, declared: Mapping[str, Config], existing: Mapping[str, Config]
) -> ConnectorPlan:
    """Compare the declared connectors of a project with the existing ones.

    An existing connector of a declared name that no project declares is adopted; one that another project
    declares is a conflict.
    """
    wanted = {
        name: {**config, "name": name, DECLARED_BY: project} for name, config in declared.items()
    }
    for name in wanted.keys() & existing.keys():
        owner = existing[name].get(DECLARED_BY, project)
        if owner != project:
            raise UserError(
                f"The connector {name} is already declared by the project {owner}. Rename one of them."
            )
    return ConnectorPlan(
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
