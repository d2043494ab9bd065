"""An attach that is refused leaves nothing behind."""

from artemis_amqp.engine.performatives import Attach, Source
from artemis_amqp.engine.types import Symbol
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission, Subject
from tests.amqp_broker import Broker, only


class NoReaders:
    """Everything is allowed but reading."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return permission is not Permission.CONSUME


def test_a_subscription_that_may_not_be_read_is_not_left_behind() -> None:
    """It was made for this link alone, and would gather messages until the connection ends."""
    broker = Broker()
    broker.domain.create_address("news", frozenset((RoutingType.MULTICAST,)))
    broker.domain.access = NoReaders()
    answer = only(broker.connect().receive(Source(address="news", capabilities=(Symbol("topic"),))), Attach)

    assert answer.source is None
    assert not broker.domain.queues


def test_a_durable_subscription_that_may_not_be_read_is_not_made() -> None:
    """The permission is asked for before."""
    broker = Broker()
    broker.domain.create_address("news", frozenset((RoutingType.MULTICAST,)))
    broker.domain.access = NoReaders()
    source = Source(address="news", durable=2, expiry_policy="never", capabilities=(Symbol("topic"),))
    answer = only(broker.connect().receive(source), Attach)

    assert answer.source is None
    assert not broker.domain.queues
