"""Warnings about a configuration in the log of a start."""

import logging

import pytest

from artemis_py.broker import Broker
from artemis_py.config import BrokerConfig
from artemis_py.deployment.reload import LOGGED_LIMIT, log_warnings
from artemis_py.errors import Problem
from artemis_py.transport.config import AcceptorConfig


def test_each_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """With all its lines."""
    log_warnings([Problem("f", line, "acceptor", "no effect") for line in (7, 9)])

    assert caplog.messages == ["f:7: acceptor: no effect (also in line 9)"]


def test_a_start_logs_a_bounded_number_of_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """A generated file may have thousands."""
    log_warnings([Problem("f", line, f"e{line}", "no effect") for line in range(LOGGED_LIMIT + 50)])

    assert len(caplog.messages) == LOGGED_LIMIT + 1
    assert caplog.messages[-1] == "50 more warnings; `artemis-py check` prints all of them"


async def test_a_start_says_what_is_left_out_of_its_acceptors(caplog: pytest.LogCaptureFixture) -> None:
    """The rest is opened."""
    acceptors = (
        AcceptorConfig(name="all", port=0, protocols=("CORE", "AMQP"), parameters={"useEpoll": "true"}),
        AcceptorConfig(name="stomp", port=0, protocols=("STOMP",)),
    )
    config = BrokerConfig(persistence_enabled=False, security_enabled=False, acceptors=acceptors)
    with caplog.at_level(logging.WARNING):
        async with Broker(config) as broker:
            opened = [fact.name for fact in broker.acceptor_facts()]

    assert opened == ["all"]
    assert [text.removeprefix(":0: acceptor: ").split(":")[0] for text in caplog.messages] == [
        "parameter protocols",
        "parameter useEpoll",
        "stomp is left out",
    ]
