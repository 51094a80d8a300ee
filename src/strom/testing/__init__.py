"""Test doubles and embedded brokers, for strom's own tests and for yours."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strom.testing.broker_process import BrokerProcess
    from strom.testing.local_broker import LocalBroker

__all__ = ["BrokerProcess", "LocalBroker"]


def __getattr__(name: str) -> Any:
    # The pytest plugin lives in this package: a test run that uses no broker should not load one.
    if name == "LocalBroker":
        from strom.testing.local_broker import LocalBroker

        return LocalBroker
    if name == "BrokerProcess":
        from strom.testing.broker_process import BrokerProcess

        return BrokerProcess
    raise AttributeError(name)
