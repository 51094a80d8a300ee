"""One module per API key, named after it. Importing a module registers its handler."""

import importlib
import pkgutil


def load() -> None:
    """Register every handler of this package."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
