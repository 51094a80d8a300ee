"""Test doubles and embedded brokers, for strom's own tests and for yours."""

from strom.testing.broker_process import BrokerProcess
from strom.testing.local_broker import LocalBroker

__all__ = ["BrokerProcess", "LocalBroker"]
