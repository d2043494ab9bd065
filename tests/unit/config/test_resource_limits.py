"""Limits of single users in broker.xml (artemis-model §6.5)."""

from pathlib import Path

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.config.embedded import embedded_config
from artemis_py.core.settings.resource_limits import ResourceLimit
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.deployment.plan import plan
from tests.unit.config.samples import mistakes, read


def limits(*settings: str) -> str:
    """The element with these settings."""
    return f"<resource-limit-settings>{''.join(settings)}</resource-limit-settings>"


def of(user: str, content: str = "<max-queues>3</max-queues>") -> str:
    """A setting."""
    return f'<resource-limit-setting match="{user}">{content}</resource-limit-setting>'


def test_limits_are_read_by_user() -> None:
    """A name is exact: it may look like a pattern."""
    both = "<max-connections>5</max-connections><max-queues>3</max-queues>"
    config = read(limits(of("ann", both), of("#"), of(" CN=device 7 ", "")))

    assert config.resource_limit_settings == {
        "ann": ResourceLimit(max_connections=5, max_queues=3),
        "#": ResourceLimit(max_queues=3),
        "CN=device 7": ResourceLimit(),
    }


def test_the_name_of_the_manual_means_the_same() -> None:
    """The manual of Artemis says `max-sessions`, its parser reads `max-connections`."""
    config = read(limits(of("ann", "<max-sessions>5</max-sessions>")))

    assert config.resource_limit_settings == {"ann": ResourceLimit(max_connections=5)}
    assert [str(each) for each in config.warnings] == [
        "broker.xml:4: max-sessions: is an old name; write max-connections"
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (of("ann") + "\n" + of("ann"), 'attribute match: user "ann" has the resource-limit-setting of line 4 already'),
        (of(""), "attribute match: is empty; write a name"),
        (of("ann", "<max-queues>many</max-queues>"), '"many" is not a whole number'),
        (of("ann", "<max-queues>-2</max-queues>"), "-2 is too small"),
        (of("ann", "<max-topics>2</max-topics>"), "is not an element of resource-limit-setting"),
        ("<resource-limit-setting/>", "attribute match: is missing"),
    ],
)
def test_mistakes_are_reported_with_their_line(settings: str, expected: str) -> None:
    (mistake,) = mistakes(limits(settings))

    assert mistake.startswith(f"broker.xml:{4 + settings.count(chr(10))}: ")
    assert expected in mistake


def test_a_change_is_planned_and_needs_no_restart() -> None:
    before, after = read(limits(of("ann"))), read(limits(of("bob")))
    (change,) = plan(before, after).changes

    assert (change.element, change.needs_restart) == ("core/resource-limit-settings", False)
    assert not plan(before, read(limits(of("ann")))).changes


def test_the_broker_follows_limits(tmp_path: Path) -> None:
    """Those of the file, and no others after a reload of another file; virtual hosts do not take them away."""
    config = evolve(embedded_config(), resource_limit_settings={"ann": ResourceLimit(max_queues=3)})
    broker = Broker(config)
    users = broker.domain.dispatcher.users
    assert (users.max_connections, users.max_queues) == ({"ann": -1}, {"ann": 3})

    other = evolve(config, resource_limit_settings={"ann": ResourceLimit(max_queues=4)})
    assert broker.deployment.apply(plan(broker.deployment.running(other), other)) == []
    assert users.max_queues == {"ann": 4}
    assert broker.virtual_hosts.hosts.create(VirtualHostConfig(name="red"))
    assert users.max_queues == {"ann": 4}
