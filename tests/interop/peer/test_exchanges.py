"""Broker-J and RabbitMQ do what the files of tests/interop/exchanges say.

For another version of one of them, set `ARTEMIS_PY_RECORD=1`: the run then writes the file. Broker-J comes from Maven.
RabbitMQ has to be installed; `ARTEMIS_PY_RABBITMQ` names its command if it is not where it usually is.
"""

from pathlib import Path

import pytest

from tests.interop.exchanges import recorded
from tests.interop.exchanges.brokers import BROKER_J, broker_j, observed, rabbitmq, rabbitmq_command
from tests.interop.exchanges.peers import RabbitMq
from tests.interop.kinds.recorded import compare
from tests.interop.kinds.scenario import FAILED, Seen
from tests.interop.peer.conftest import unpacked
from tests.interop.records import of_another_broker


def check(seen: dict[str, Seen], path: Path) -> None:
    """Compare what was seen with a file."""
    assert {program: facts for program, facts in seen.items() if FAILED in facts} == {}
    assert compare(seen, path) == []


@of_another_broker
@pytest.mark.timeout(600)
def test_programs_see_in_broker_j_what_is_recorded(tmp_path: Path) -> None:
    """All programs against one broker, which is restarted once."""
    unpacked("Apache Qpid Broker-J", f"org.apache.qpid:apache-qpid-broker-j:{BROKER_J}:tar.gz:bin", tmp_path)

    check(observed(broker_j(tmp_path / "qpid-broker" / BROKER_J, tmp_path)), recorded.BROKER_J)


@of_another_broker
@pytest.mark.timeout(600)
def test_programs_see_in_rabbitmq_what_is_recorded(tmp_path: Path) -> None:
    """All programs against one node, which is restarted once."""
    command = rabbitmq_command()
    if command is None:
        pytest.skip("RabbitMQ 4 is not installed; ARTEMIS_PY_RABBITMQ may name the command that runs it")
    start = rabbitmq(command, tmp_path)
    with start() as site:
        assert isinstance(site, RabbitMq)
        if not site.version().startswith("4."):
            pytest.skip(f"RabbitMQ is {site.version()}; version 4 was the first with AMQP 1.0 of its own")

    check(observed(start), recorded.RABBITMQ)
