"""The genuine client of ActiveMQ, both generations of it, against each broker: everything seen is as expected."""

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import REPOSITORY, Instance, launch, start_broker
from tests.interop.openwire import peers
from tests.interop.openwire.expectations import disagreements, expected
from tests.interop.openwire.peers import BROKER_JARS, CLASSIC_5, CLASSIC_6, Build, Generation, Start
from tests.interop.records import of_another_broker

TIMEOUT_S: Final = 600
MOST: Final = r"(?!Scheduled\.cron$).*"
"""All but the one that waits for a full minute: it need not do so with each client."""

CLASSIC: Final = "classic"
ARTEMIS: Final = "artemis"
OURS: Final = "ours"
BROKERS: Final = [*[pytest.param(name, marks=of_another_broker) for name in (CLASSIC, ARTEMIS)], OURS]

CERTIFICATES: Final = REPOSITORY / "tests" / "transport" / "certificates"
ENCRYPTED: Final = Instance(
    core="""<security-settings><security-setting match="#">
      <permission type="createNonDurableQueue" roles="app"/><permission type="createDurableQueue" roles="app"/>
      <permission type="createAddress" roles="app"/><permission type="consume" roles="app"/>
      <permission type="send" roles="app"/>
    </security-setting></security-settings>""",
    parameters="protocols=OPENWIRE;sslEnabled=true;saslMechanisms=EXTERNAL,PLAIN"
    f";keyStorePath={CERTIFICATES / 'broker.pem'};trustStorePath={CERTIFICATES / 'authority.pem'}",
    users="ann = secret\n",
    roles="app = ann, CN=client\\,OU=Tests\\,O=Example\\\\\\, Inc.\n",
)

pytestmark = pytest.mark.timeout(TIMEOUT_S)

UNLIMITED: Final = """<address-setting match="load.*">
  <max-delivery-attempts>-1</max-delivery-attempts><auto-delete-queues>false</auto-delete-queues></address-setting>"""
LIFE_MESSAGES: Final = (20, 120)
"""How many messages a broker takes, at least, before it is killed: so the speed of the machine does not matter."""

Builds = Callable[[Generation], Build]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """The scenarios for a generation, compiled once."""
    built: dict[str, Build] = {}

    def build(generation: Generation) -> Build:
        if generation.name not in built:
            try:
                built[generation.name] = peers.build(generation, tmp_path_factory.mktemp(generation.name))
            except peers.Unavailable as missing:
                pytest.skip(str(missing))
        return built[generation.name]

    return build


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Apache Artemis, unpacked."""
    try:
        return peers.artemis_distribution(tmp_path_factory.mktemp("apache-artemis"))
    except peers.Unavailable as missing:
        pytest.skip(str(missing))


def starter(broker: str, build: Build, request: pytest.FixtureRequest) -> Start:
    """What starts a broker of this name."""
    match broker:
        case "classic":
            return peers.classic(build)
        case "artemis":
            return peers.artemis(request.getfixturevalue("distribution"))
        case _:
            return peers.ours


@pytest.mark.parametrize("generation", [CLASSIC_5, CLASSIC_6], ids=lambda generation: generation.name)
@pytest.mark.parametrize("broker", BROKERS)
def test_all_that_is_seen_is_expected(
    broker: str, generation: Generation, builds: Builds, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Every scenario in one process; a scenario that fails fails the test with its stack trace.

    A broker of others has races that are not ours to mend: only what it shows twice is held against the record, and a
    scenario may fail with it once.
    """
    build = builds(generation)
    names = peers.EVERYTHING if generation is CLASSIC_5 else MOST
    start = starter(broker, build, request)

    try:
        wrong = disagreements(expected(broker), peers.observe(build, start, tmp_path, names))
        suspects = "|".join(sorted({re.escape(line.partition(",")[0]) for line in wrong}))
    except AssertionError as failure:
        if broker == OURS:
            raise
        wrong, suspects = [str(failure)], names
    if wrong and broker != OURS:
        (again := tmp_path / "again").mkdir()
        wrong = disagreements(expected(broker), peers.observe(build, start, again, suspects))
    assert not wrong, "\n".join(wrong)


def test_tls(builds: Builds, tmp_path: Path) -> None:
    """Trust, a certificate as the user (docs/security.md), octets in small pieces, and failover."""
    broker = start_broker(ENCRYPTED, tmp_path)
    folders = (str(CERTIFICATES), str(tmp_path))
    seen = builds(CLASSIC_5).run_class("interop.Encrypted", f"{broker.host}:{broker.port}", *folders)["Encrypted"]
    broker.stop()

    refusals = {name: seen.pop(name) for name in ("neither", "both", "no trust", "without TLS")}
    assert refusals.pop("neither") == refusals.pop("both") == "JMSSecurityException"
    assert "accepted" not in refusals.values()
    assert seen == {
        "certificate": "accepted",
        "password": "accepted",
        **{f"the same in pieces of {size}": True for size in (65536, 1000, 7)},
        **{f"received {index}": f"m{index}" for index in range(3)},
    }


def test_a_failover_client_outlives_kills(builds: Builds, tmp_path: Path) -> None:
    """Every message once: in the queue that it was sent to, and in the one that a transaction moved it to."""
    outlive_kills(builds(CLASSIC_5), tmp_path, 3, seed=1)


def outlive_kills(build: Build, folder: Path, kills: int, seed: int) -> dict[str, int]:
    """Kill a broker so often under the load; what the clients saw."""
    chance = random.Random(seed)
    broker = start_broker(Instance(persistence="true", parameters="protocols=OPENWIRE", settings=UNLIMITED), folder)
    configuration = folder / "etc" / "broker.xml"
    configuration.write_text(configuration.read_text().replace("127.0.0.1:0?", f"127.0.0.1:{broker.port}?"))
    url = f"failover:(tcp://127.0.0.1:{broker.port})?initialReconnectDelay=20&maxReconnectDelay=100"
    command = build.java("interop.Load", url, without=BROKER_JARS)
    sent = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        try:
            for _ in range(kills):
                wanted = sent + chance.randint(*LIFE_MESSAGES)
                while sent < wanted:
                    sent = int(load.stdout.readline())
                broker.kill()
                broker = launch(folder)
            load.stdin.close()
            *_, last = load.stdout
        finally:
            load.kill()
            broker.kill()
    seen: dict[str, int] = json.loads(last)
    assert (seen["missing"], seen["doubled"]) == (0, 0), seen
    assert seen["sent"] >= sent, seen
    return seen
