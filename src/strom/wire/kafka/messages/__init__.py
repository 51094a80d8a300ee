"""All messages, one module per API key; the tables by API key are built from the declarations."""

import importlib
import pkgutil
from typing import TypeVar

from strom.wire.kafka.schema import Request, Response, Struct

S = TypeVar("S", bound=Struct)

_MODULES = [
    importlib.import_module(f"{__name__}.{module.name}")
    for module in pkgutil.iter_modules(__path__)
]


def _by_api_key(kind: type[S]) -> dict[int, type[S]]:
    declared = (item for module in _MODULES for item in vars(module).values())
    messages = (item for item in declared if isinstance(item, type) and issubclass(item, kind))
    return {item.SCHEMA.api_key: item for item in messages if item is not kind}


REQUESTS: dict[int, type[Request]] = _by_api_key(Request)
RESPONSES: dict[int, type[Response]] = _by_api_key(Response)
