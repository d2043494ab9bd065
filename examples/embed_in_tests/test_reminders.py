"""Tests of a service that uses a broker. The fixture `artemis_broker` comes with artemis_py.

pip install 'artemis-py-broker[proton]' pytest  # needs a C compiler: Qpid Proton comes as source
pytest examples/embed_in_tests
"""

import pytest
from proton import ProtonException
from proton.utils import BlockingConnection
from reminders import remind_tomorrow

from artemis_py.testing import RunningBroker

DAY_S = 24 * 3600


def test_a_reminder_comes_tomorrow(artemis_broker: RunningBroker) -> None:
    """The clock is moved, so nobody waits."""
    remind_tomorrow(artemis_broker.url(), "water the plants")
    queue = artemis_broker.queue("reminders")
    assert queue.scheduled == 1

    artemis_broker.clock.advance(DAY_S)

    connection = BlockingConnection(artemis_broker.url(), timeout=10)
    receiver = connection.create_receiver("reminders")
    assert receiver.receive(timeout=10).body == "water the plants"
    receiver.accept()
    connection.close()
    queue.wait_until_empty()


def test_a_reminder_is_sent_again_if_it_is_refused(artemis_broker: RunningBroker) -> None:
    """Twice."""
    with artemis_broker.faults.refuse("reminders", count=2) as fault:
        remind_tomorrow(artemis_broker.url(), "water the plants")

    assert fault.refused == 2
    assert artemis_broker.queue("reminders").count == 1


def test_the_third_refusal_is_an_error(artemis_broker: RunningBroker) -> None:
    """The caller has to know."""
    with artemis_broker.faults.refuse("reminders", count=3), pytest.raises(ProtonException):
        remind_tomorrow(artemis_broker.url(), "water the plants")
