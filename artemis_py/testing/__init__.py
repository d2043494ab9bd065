"""Brokers for test suites: look into queues, move the clock, and make things fail (docs/testing.md).

`running_broker` runs a broker in a thread, for tests with blocking clients and for those with coroutines. Under pytest
the fixtures of `artemis_py.pytest_plugin` are there without an import.
"""

from artemis_py.testing.clock import Clock
from artemis_py.testing.faults import Faults
from artemis_py.testing.network import Network
from artemis_py.testing.queues import KeptMessage, TestQueue
from artemis_py.testing.running import RunningBroker, running_broker

__all__ = ["Clock", "Faults", "KeptMessage", "Network", "RunningBroker", "TestQueue", "running_broker"]
