"""The crash test: a broker under load is killed at random moments, and what its clients saw is checked.

`python -m tests.crash.run --rounds 200` runs it long; tests/crash/test_kill.py is the short form. A failure prints the
seed and keeps the folder.
"""

import argparse
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from proton import Delivery

from tests.crash.broken_broker import FAULTS
from tests.crash.check import Report, check
from tests.crash.ledger import Ledger, read
from tests.crash.load import BRIEF, EXPIRED, LATER, NEWS, ONCE, SUBSCRIPTIONS, WINDOW, WORK, note_delivery
from tests.crash.processes import command_of
from tests.interop.proton.client import Client

CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>crash</name>
    <id-cache-size>{id_cache_size}</id-cache-size>
    <security-enabled>false</security-enabled>
    <message-expiry-scan-period>50</message-expiry-scan-period>
    <acceptors><acceptor name="amqp">tcp://127.0.0.1:{port}?protocols=AMQP</acceptor></acceptors>
    <addresses>
      <address name="ExpiryQueue"><anycast><queue name="ExpiryQueue"/></anycast></address>
      <address name="news"><multicast><queue name="news.a"/><queue name="news.b"/></multicast></address>
    </addresses>
    <address-settings>
      <address-setting match="#">
        <expiry-address>ExpiryQueue</expiry-address>
        <max-delivery-attempts>-1</max-delivery-attempts>
        <default-address-routing-type>ANYCAST</default-address-routing-type>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
        <auto-delete-queues>false</auto-delete-queues>
      </address-setting>
    </address-settings>
  </core>
</configuration>
"""

ROLES: Final = ("produce", "produce", "transact", "repeat", "consume", "consume")
START_TIMEOUT_S: Final = 60.0
LIFE_S: Final = (0.1, 1.5)
"""How long a broker lives after it is ready: from its first commits to a steady load."""


class CrashRun:
    """One run in one folder."""

    def __init__(self, folder: Path, seed: int, fault: str | None = None) -> None:
        self.folder: Final = folder
        self.random: Final = random.Random(seed)
        self._seed = seed
        self._fault = fault
        self._port = 0
        self._stop = folder / "stop"
        self._ledgers = folder / "ledgers"

    def run(self, rounds: int) -> Report:
        """Kill `rounds` brokers, then drain the last one's queues and check."""
        self._ledgers.mkdir(parents=True)
        (self.folder / "etc").mkdir()
        broker = self._start()
        clients = [self._client(number, role) for number, role in enumerate(ROLES)]
        try:
            for _ in range(rounds):
                time.sleep(self.random.uniform(*LIFE_S))
                broker.kill()
                broker.wait()
                broker = self._start()
            time.sleep(LIFE_S[1])
            self._stop.touch()
            for client in clients:
                client.wait(30)
            self._drain()
        finally:
            for process in clients:
                process.kill()
                process.wait()
            broker.send_signal(signal.SIGTERM)
            code = broker.wait(30)
        report = check(read(self._ledgers))
        if code != 0:
            report.violations.append(f"the last broker ended with {code}")
        log = (self.folder / "broker.log").read_text(encoding="utf-8", errors="replace")
        report.violations += [line for line in log.splitlines() if " ERROR " in line or "Traceback" in line]
        return report

    def _start(self) -> "subprocess.Popen[bytes]":
        """A broker that is ready; from the second on at the port of the first."""
        text = CONFIGURATION.format(port=self._port, id_cache_size=2 * WINDOW)
        (self.folder / "etc" / "broker.xml").write_text(text, encoding="utf-8")
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        module = ["artemis_py.cli"] if self._fault is None else ["tests.crash.broken_broker", self._fault]
        command = command_of(*module, "run", str(self.folder), "--port-file", str(port_file))
        with open(self.folder / "broker.log", "ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not port_file.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise AssertionError("the broker did not start:\n" + (self.folder / "broker.log").read_text()[-3000:])
            time.sleep(0.01)
        self._port = int(port_file.read_text().split()[0])
        return process

    def _client(self, number: int, role: str) -> "subprocess.Popen[bytes]":
        ledger = self._ledgers / f"{role}-{number}.ledger"
        url = f"amqp://127.0.0.1:{self._port}"
        command = command_of("tests.crash.load", role, url, str(ledger), str(self._stop))
        with open(self.folder / "clients.log", "ab") as log:
            return subprocess.Popen([*command, str(self._seed + number)], stderr=log)

    def _drain(self) -> None:
        """Take everything there is; each message into the ledger."""
        time.sleep(1.0)  # the longest delivery delay and time to live
        ledger = Ledger(self._ledgers / "drain.ledger")
        with Client(f"amqp://127.0.0.1:{self._port}") as client:
            for queue in (WORK, LATER, ONCE, *SUBSCRIPTIONS, BRIEF, EXPIRED):
                receiver = client.receiver(f"{NEWS}::{queue}" if queue in SUBSCRIPTIONS else queue)
                while taken := receiver.drain():
                    for received in taken:
                        note_delivery(ledger, received.message, queue)
                        received.delivery.update(Delivery.ACCEPTED)
                        received.delivery.settle()
                receiver.close()


def main() -> None:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fault", choices=sorted(FAULTS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    report = CrashRun(folder, options.seed, options.fault).run(options.rounds)
    print(f"seed={options.seed} folder={folder}\n{report}")
    if report.violations:
        raise SystemExit(1)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
