"""The broker as an operator runs it: installed, a process with an instance folder, a port and a log.

The tests know nothing of the broker but its command line and its wire. `ARTEMIS_PY_INTEROP_BROKER` names another
command that takes an instance folder and the file to announce its port in: any broker that reads the same
`broker.xml` can then be held against the same suites.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from attrs import field, frozen

START_TIMEOUT_S: Final = 60.0
"""Far above the promised half second: a loaded machine must not fail the suite."""
STOP_TIMEOUT_S: Final = 30.0
POLL_INTERVAL_S: Final = 0.02

REPOSITORY: Final = Path(__file__).resolve().parents[2]
"""Where the tests, examples and documentation are."""

# A log line of a level at which someone must act, or the start of a traceback.
COMPLAINT: Final = re.compile(r"\b(ERROR|CRITICAL|Traceback)\b|^\w*(Error|Exception):", re.MULTILINE)

LOG_ELEMENT: Final = "<write-ahead-log>false</write-ahead-log>" if os.environ.get("ARTEMIS_PY_TEST_LOG") == "0" else ""
"""Part of broker.xml: stores have a log unless ARTEMIS_PY_TEST_LOG=0 switches it off."""

CONFIGURATION: Final = """<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>interop</name>
    <persistence-enabled>{persistence}</persistence-enabled>
    {log}
    {core}
    <acceptors>
      <acceptor name="amqp">tcp://127.0.0.1:0?{parameters}</acceptor>
    </acceptors>
    <addresses>
      <address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
      <address name="ExpiryQueue"><anycast><queue name="ExpiryQueue"/></anycast></address>
      {addresses}
    </addresses>
    <address-settings>
      <address-setting match="#">
        <dead-letter-address>DLQ</dead-letter-address>
        <expiry-address>ExpiryQueue</expiry-address>
        <default-address-routing-type>ANYCAST</default-address-routing-type>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
      </address-setting>
      {settings}
    </address-settings>
  </core>
</configuration>
"""


@frozen(kw_only=True)
class Instance:
    """What to run: the parts of a `broker.xml`, and the people who may use it."""

    core: str = "<security-enabled>false</security-enabled><message-expiry-scan-period>100</message-expiry-scan-period>"
    """Elements of `<core>` beside acceptors, addresses and address-settings."""
    persistence: str = "false"
    """Most tests start many brokers and restart none."""
    parameters: str = "protocols=AMQP,MQTT"
    """Parameters of the one acceptor's URL."""
    addresses: str = ""
    settings: str = ""
    users: str = ""
    """`artemis-users.properties`: a line `name = password` per user."""
    roles: str = ""
    """`artemis-roles.properties`: a line `role = user,user` per role."""

    def write(self, directory: Path) -> None:
        """Lay the instance folder out in `directory`."""
        etc = directory / "etc"
        etc.mkdir(parents=True)
        (directory / "data").mkdir()
        (etc / "broker.xml").write_text(self.configuration(), encoding="utf-8")
        (etc / "artemis-users.properties").write_text(self.users, encoding="utf-8")
        (etc / "artemis-roles.properties").write_text(self.roles, encoding="utf-8")

    def configuration(self) -> str:
        """Return the text of its `broker.xml`."""
        return CONFIGURATION.format(
            core=self.core,
            persistence=self.persistence,
            log=LOG_ELEMENT,
            parameters=self.parameters,
            addresses=self.addresses,
            settings=self.settings,
        )


class BrokerFailed(AssertionError):
    """The process did not start, did not stop, or complained; the text holds its log."""


@frozen(kw_only=True)
class BrokerProcess:
    """A running broker."""

    process: "subprocess.Popen[bytes]"
    directory: Path
    port: int
    host: str = "127.0.0.1"
    log: Path = field(init=False)

    @log.default
    def _default_log(self) -> Path:
        return self.directory / "stderr.log"

    @property
    def url(self) -> str:
        """What AMQP clients connect to."""
        return f"amqp://{self.host}:{self.port}"

    def log_text(self) -> str:
        """Everything the broker has logged so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """Stop as an operator does (SIGTERM); raises BrokerFailed unless it ends cleanly and complained of nothing."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"still running {STOP_TIMEOUT_S} s after SIGTERM\n{self.log_text()}") from None
        if code != 0:
            raise BrokerFailed(f"exit code {code} after SIGTERM\n{self.log_text()}")
        self.check_log()

    def reload(self) -> None:
        """Have it read its files now (SIGHUP); by itself it looks for changed users and roles every few seconds."""
        self.process.send_signal(signal.SIGHUP)

    def check_log(self) -> None:
        """Raise BrokerFailed if the log holds an error or a traceback: no client may cause either."""
        text = self.log_text()
        if COMPLAINT.search(text):
            raise BrokerFailed(f"the broker logged an error\n{text}")

    def kill(self) -> None:
        """End the process now, without a word."""
        self.process.kill()
        self.process.wait()


def start_broker(instance: Instance, directory: Path) -> BrokerProcess:
    """Run `instance` in the empty `directory`; return when it accepts connections.

    Raises BrokerFailed if the process ends or says nothing of its port for `START_TIMEOUT_S`.
    """
    instance.write(directory)
    return launch(directory)


def launch(directory: Path, python: str = sys.executable) -> BrokerProcess:
    """Run the instance in `directory`, for the first time or again; see `start_broker`.

    `python`: the interpreter in whose environment the broker is installed.
    """
    port_file = directory / "port"
    port_file.unlink(missing_ok=True)
    override = os.environ.get("ARTEMIS_PY_INTEROP_BROKER")
    if override:
        command = [*shlex.split(override), str(directory), str(port_file)]
    else:
        command = [python, "-P", "-m", "artemis_py.cli", "run", str(directory), "--port-file", str(port_file)]
    with open(directory / "stdout.log", "wb") as stdout, open(directory / "stderr.log", "wb") as stderr:
        process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
    deadline = time.monotonic() + START_TIMEOUT_S
    while (port := _read_port(port_file)) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            output = (directory / "stdout.log").read_text(errors="replace")
            log = (directory / "stderr.log").read_text(errors="replace")
            raise BrokerFailed(f"not started: {shlex.join(command)}\n{output}\n{log}")
        time.sleep(POLL_INTERVAL_S)
    return BrokerProcess(process=process, directory=directory, port=port)


def _read_port(path: Path) -> int | None:
    """The port in the file; None while the file is missing or still being written."""
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    match = re.search(r"(\d+)\s*\n", text)
    return int(match[1]) if match else None
