"""Test doubles and embedded brokers, for strom's own tests and for yours."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strom.supervision.broker_process import BrokerProcess
    from strom.testing.local_broker import LocalBroker
    from strom.testing.manual_clock import ManualClock
    from strom.testing.memory_files import MemoryFiles

__all__ = ["BrokerProcess", "LocalBroker", "ManualClock", "MemoryFiles"]

_MODULES = {
    "BrokerProcess": "strom.supervision.broker_process",
    "LocalBroker": "strom.testing.local_broker",
    "ManualClock": "strom.testing.manual_clock",
    "MemoryFiles": "strom.testing.memory_files",
}


def __getattr__(name: str) -> Any:
    # Lazily, because pytest imports this package for the plugin even where no test uses a broker.
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(importlib.import_module(_MODULES[name]), name)
