"""SIGHUP: a running broker follows its files again, and never ends because of them."""

import os
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop.broker_process import REPOSITORY, BrokerProcess, Instance, launch, start_broker
from tests.interop.proton.client import Client

TIMEOUT_S: Final = 60.0
CERTIFICATES: Final = REPOSITORY / "tests" / "transport" / "certificates"
ADDRESS: Final = '<address name="orders"><anycast><queue name="orders"/></anycast></address>'
SECURITY: Final = """
<security-enabled>true</security-enabled>
<security-settings><security-setting match="#"><permission type="send" roles="writer"/></security-setting>
</security-settings>
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker in a folder whose files the tests change."""
    process = start_broker(Instance(addresses=ADDRESS), tmp_path / "broker")
    yield process
    process.kill()


def hang_up(broker: BrokerProcess, expected: str) -> str:
    """Send the signal, wait for this text in the log, and return what was logged."""
    before = len(broker.log_text())
    broker.process.send_signal(signal.SIGHUP)
    return wait_for(lambda: broker.log_text()[before:], expected)


def wait_for(text: Callable[[], str], expected: str) -> str:
    """Wait until a text contains another one."""
    deadline = time.monotonic() + TIMEOUT_S
    while expected not in text():
        assert time.monotonic() < deadline, f"{expected!r} is not in\n{text()}"
        time.sleep(0.01)
    return text()


def change(broker: BrokerProcess, old: str, new: str) -> None:
    """Replace a text in broker.xml."""
    path = broker.directory / "etc" / "broker.xml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_new_queue_and_a_changed_setting_are_there(broker: BrokerProcess) -> None:
    change(broker, ADDRESS, f'{ADDRESS}<address name="bills"><anycast><queue name="bills"/></anycast></address>')
    log = hang_up(broker, "configuration reloaded")

    assert 'queue "bills"' in log
    assert "problems=0" in log
    with Client(broker.url) as client:
        client.send("bills", "first")
        assert client.receiver("bills").bodies() == ["first"]
    broker.stop()


def test_exchanges_come_and_change(broker: BrokerProcess) -> None:
    exchanges = """<exchanges xmlns="urn:artemis-py"><exchange name="bills" type="direct">
    <binding key="new" queue="orders"/></exchange></exchanges>"""
    change(broker, "</core>", f"</core>{exchanges}")
    log = hang_up(broker, "configuration reloaded")
    assert 'exchange "bills": is created as a durable direct exchange' in log
    with Client(broker.url) as client:
        client.send("bills/new", "first")
        assert client.receiver("orders").bodies() == ["first"]

    change(broker, 'key="new"', 'key="old"')
    log = hang_up(broker, "configuration reloaded")
    assert 'binding of bills with key "new": no longer leads to queue' in log
    assert "problems=0" in log
    with Client(broker.url) as client:
        client.send("bills/old", "second")
        assert client.receiver("orders").bodies() == ["second"]

    change(broker, 'queue="orders"', 'queue="order"')
    log = hang_up(broker, "configuration is not reloaded")
    assert "did you mean orders?" in log


def test_a_broken_file_changes_nothing_and_is_named(broker: BrokerProcess) -> None:
    change(broker, "<queue name=", "<quque name=")
    log = hang_up(broker, "configuration is not reloaded")

    assert "broker.xml:" in log
    assert "quque" in log
    with Client(broker.url) as client:
        client.send("orders", "still there")
        assert client.receiver("orders").bodies() == ["still there"]

    change(broker, "<quque name=", "<queue name=")
    hang_up(broker, "configuration reloaded: changes=0")


def test_what_waits_for_the_next_start_is_named(broker: BrokerProcess) -> None:
    change(broker, "<name>interop</name>", "<name>other</name>")
    log = hang_up(broker, "configuration reloaded")

    assert "configuration waits for the next start: core/name" in log
    assert "waiting=1" in log


def test_users_are_read_at_once(tmp_path: Path) -> None:
    broker = start_broker(
        Instance(core=SECURITY, addresses=ADDRESS, users="ann = ann-pass\n", roles="writer = ann\n"),
        tmp_path / "broker",
    )
    try:
        etc = broker.directory / "etc"
        (etc / "artemis-users.properties").write_text("ann = ann-pass\nbob = bob-pass\n", encoding="utf-8")
        (etc / "artemis-roles.properties").write_text("writer = ann,bob\n", encoding="utf-8")
        hang_up(broker, "users reloaded")
        with Client(broker.url, user="bob", password="bob-pass") as client:
            client.send("orders", "from bob")
        broker.stop()
    finally:
        broker.kill()


def test_a_new_certificate_is_shown_to_new_connections(tmp_path: Path) -> None:
    """A certificate that cannot be used leaves the old one in place."""
    folder = tmp_path / "broker"
    instance = Instance(parameters="protocols=AMQP;sslEnabled=true;keyStorePath=broker.pem")
    instance.write(folder)
    store = folder / "etc" / "broker.pem"
    shutil.copy(CERTIFICATES / "broker.pem", store)
    broker = launch(folder)
    try:
        first = shown_certificate(broker)
        store.write_text("no certificate", encoding="utf-8")
        log = hang_up(broker, "configuration reloaded")
        assert "keyStorePath=" in log
        assert "problems=1" in log
        assert shown_certificate(broker) == first

        make_certificate(store)
        hang_up(broker, "problems=0")
        assert shown_certificate(broker) != first
    finally:
        broker.kill()


def shown_certificate(broker: BrokerProcess) -> str:
    """The certificate that a client sees now."""
    return ssl.get_server_certificate((broker.host, broker.port))


def make_certificate(path: Path) -> None:
    """Write a new self-signed certificate with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no second certificate can be made")
    key, certificate = path.with_suffix(".key"), path.with_suffix(".crt")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*request, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    path.write_text(certificate.read_text() + key.read_text(), encoding="utf-8")


def test_signals_in_a_row_are_all_served(broker: BrokerProcess) -> None:
    """Also without a change, and while the first is being served."""
    for _ in range(5):
        os.kill(broker.process.pid, signal.SIGHUP)
    wait_for(broker.log_text, "configuration reloaded: changes=0 waiting=0 problems=0")

    hang_up(broker, "configuration reloaded")
    broker.stop()


def test_a_changed_file_is_read_again_without_a_signal(tmp_path: Path) -> None:
    """`configuration-file-refresh-period`; a mistake in it is logged once, and changes nothing."""
    period = "<configuration-file-refresh-period>100</configuration-file-refresh-period>"
    broker = start_broker(
        Instance(core=f"<security-enabled>false</security-enabled>{period}", addresses=ADDRESS), tmp_path / "broker"
    )
    try:
        path = broker.directory / "etc" / "broker.xml"
        bills = '<address name="bills"><anycast><queue name="bills"/></anycast></address>'
        change(broker, ADDRESS, ADDRESS + bills)
        # An older time counts as well: the file may have been put back.
        os.utime(path, (1, 1))
        log = wait_for(broker.log_text, "configuration reloaded: changes=2")
        assert "configuration has changed: file=" in log
        assert "SIGHUP" not in log
        with Client(broker.url) as client:
            client.send("bills", "first")

        change(broker, "<queue name=", "<quque name=")
        log = wait_for(broker.log_text, "configuration is not reloaded")
        assert "quque" in log
        # It is followed again, and the signal still works: nothing is watched from then on.
        change(broker, "<quque name=", "<queue name=")
        wait_for(broker.log_text, "configuration reloaded: changes=0")
        change(broker, period, "")
        hang_up(broker, "core/configuration-file-refresh-period: 100 becomes -1")
        log = broker.log_text()
        assert log.count("configuration has changed") == 3
        assert log.count("configuration is not reloaded") == log.count("quque")
    finally:
        broker.kill()
