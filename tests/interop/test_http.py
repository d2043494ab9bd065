"""A broker as a process, asked over HTTP while messages go through it: probes, metrics, the API, and its end."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.interop.broker_process import REPOSITORY, START_TIMEOUT_S, STOP_TIMEOUT_S

pytest.importorskip("aiohttp", reason="the extra http is not installed")

COMMAND = [sys.executable, "-P", "-m", "artemis_py.cli"]


def create(folder: Path) -> Path:
    """Make an instance with free ports."""
    ports = ["--port", "0", "--amqp-port", "0", "--mqtt-port", "0"]
    subprocess.run(
        [*COMMAND, "create", str(folder), "--user", "admin", "--password", "x", "--silent", *ports], check=True
    )
    return folder


class Process:
    """`artemis-py run` in an instance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [*COMMAND, "run", str(folder)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "ARTEMIS_PY_WEB_BIND": "http://127.0.0.1:0"},
        )
        assert self.process.stdout is not None
        self.listening: dict[str, str] = {}
        for line in self.process.stdout:
            if line == "ready\n":
                break
            _, name, where = line.split()
            self.listening[name] = where

    def ask(
        self, path: str, body: object = None, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return the status, and what came as JSON or text."""
        request = urllib.request.Request(
            self.listening["web"].rstrip("/") + path, method=method, headers=dict(headers or {})
        )
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as answer:
                text, status = answer.read().decode(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read().decode(), error.code
        return status, json.loads(text) if text[:1] in ("{", "[") else text

    def run(self, *arguments: str) -> str:
        """Run another command of ours against the broker, and return what it prints."""
        url = ["--url", f"amqp://{self.listening['artemis']}"]
        return subprocess.run(
            [*COMMAND, *arguments, *url], check=True, capture_output=True, text=True, timeout=START_TIMEOUT_S
        ).stdout

    def end(self) -> str:
        """Stop the broker, and return its log."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STOP_TIMEOUT_S) == 0
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        """Leave nothing running."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Process]:
    """A broker that answers HTTP at a free port."""
    process = Process(create(tmp_path / "instance"))
    yield process
    process.close()


def test_messages_of_clients_are_seen_over_http(broker: Process) -> None:
    broker.run("producer", "--destination", "queue://orders", "--message", "x", "--message-count", "3")

    assert broker.ask("/health/ready")[0] == 200
    assert broker.ask("/api/v1/queues/orders?attributes=messageCount") == (200, {"messageCount": 3})
    metrics = broker.ask("/metrics")[1]
    assert 'artemis_py_queue_messages{state="waiting"} 3\n' in metrics
    assert 'artemis_py_connections_opened_total{protocol="AMQP",acceptor="artemis"} 1\n' in metrics
    assert broker.ask("/api/v1/queues/orders/purge", [], "POST") == (200, {"result": 3})
    assert '"messageCount": 0' in broker.run("queue", "list", "--name", "orders", "--json")

    log = broker.end()

    assert "operation=purge parameters=[] result=3" in log
    assert "Traceback" not in log


def test_what_was_done_over_http_survives_a_kill(broker: Process) -> None:
    body = {"name": "kept", "address": "kept", "routingType": "ANYCAST", "maxConsumers": 7}
    assert broker.ask("/api/v1/queues", body, "POST")[0] == 201
    broker.process.kill()
    broker.close()

    again = Process(broker.folder)
    try:
        assert again.ask("/api/v1/queues/kept?attributes=maxConsumers") == (200, {"maxConsumers": 7})
    finally:
        again.close()


def test_idle_connections_do_not_delay_the_end(broker: Process) -> None:
    host, _, port = broker.listening["web"].removeprefix("http://").rstrip("/").partition(":")
    with socket.create_connection((host, int(port))), socket.create_connection((host, int(port))) as half:
        half.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n")
        begun = time.monotonic()
        broker.end()
        assert time.monotonic() - begun < STOP_TIMEOUT_S


def test_a_broker_without_the_extra_says_what_to_install(tmp_path: Path) -> None:
    folder = create(tmp_path / "instance")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "aiohttp.py").write_text("raise ImportError('No module named aiohttp')\n")
    ended = subprocess.run(
        [*COMMAND, "run", str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "ARTEMIS_PY_WEB_BIND": "http://127.0.0.1:0", "PYTHONPATH": str(hidden)},
        timeout=START_TIMEOUT_S,
    )

    assert ended.returncode == 2
    assert "pip install 'artemis-py-broker[http]'" in ended.stderr


def test_a_token_outlives_a_kill_and_ends_with_its_owner(broker: Process) -> None:
    login = ["--user", "admin", "--password", "x"]
    token = broker.run("token", "create", "ci", "--scope", "read", *login)
    bearer = {"Authorization": f"Bearer {token.rstrip()}"}
    who = broker.ask("/api/v1/login", headers=bearer)
    assert (len(token), token.count("\n"), who) == (61, 1, (200, {"user": "admin", "by": "token"}))
    assert broker.ask("/api/v1/queues/DLQ/pause", [], "POST", bearer)[0] == 403
    (row,) = json.loads(broker.run("token", "list", "--json", *login))["tokens"]
    assert (row["name"], row["id"]) == ("ci", token[4:16])
    broker.process.kill()
    broker.close()

    again = Process(broker.folder)
    try:
        assert again.ask("/api/v1/queues", headers=bearer)[0] == 200
        assert f"revoked: token {row['id']}\n" == again.run("token", "revoke", row["id"], *login)
        assert again.ask("/api/v1/queues", headers=bearer)[0] == 401
        other = again.run("token", "create", "ci", *login).rstrip()
        log = again.end()
    finally:
        again.close()
    assert (token[17:].rstrip() in log, other[17:] in log, row["id"] in log) == (False, False, True)

    subprocess.run([*COMMAND, "user", "remove", str(broker.folder), "admin"], check=True, capture_output=True)
    last = Process(broker.folder)
    try:
        assert last.ask("/api/v1/queues", headers={"Authorization": f"Bearer {other}"})[0] == 401
        assert "tokens ended, because their owner was removed: owner=admin tokens=1" in last.end()
    finally:
        last.close()


def test_a_session_lasts_until_the_password_is_changed(broker: Process) -> None:
    """As a script would do it that has no library for this."""
    web = broker.listening["web"].rstrip("/")
    body = json.dumps({"name": "admin", "password": "x"}).encode()
    headers = {"Content-Type": "application/json", "Origin": web}
    with urllib.request.urlopen(urllib.request.Request(f"{web}/api/v1/login", body, headers)) as answer:
        headers |= {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
        csrf = json.loads(answer.read())["csrf"]

    assert broker.ask("/api/v1/login", headers=headers)[1]["by"] == "session"
    assert broker.ask("/api/v1/queues/DLQ/pause", [], "POST", headers)[1]["code"] == "cross-site"
    headers |= {"X-Artemis-Csrf": csrf}
    assert broker.ask("/api/v1/queues/DLQ/pause", [], "POST", headers)[0] == 200

    new = ["--password", "y"]
    subprocess.run([*COMMAND, "user", "passwd", str(broker.folder), "admin", *new], check=True, capture_output=True)
    broker.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + START_TIMEOUT_S
    while broker.ask("/api/v1/login", headers=headers)[1].get("code") != "session-ended":
        assert time.monotonic() < deadline


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed (apt install prometheus)")
def test_prometheus_scrapes_with_a_token(broker: Process, tmp_path: Path) -> None:
    login = ["--user", "admin", "--password", "x"]
    (tmp_path / "token").write_text(broker.run("token", "create", "prometheus", "--scope", "metrics", *login))
    web = broker.listening["web"].rstrip("/")
    jobs = [
        {"job_name": name, "scrape_interval": "1s", "authorization": {"credentials_file": str(tmp_path / file)}}
        | {"static_configs": [{"targets": [web.removeprefix("http://")]}]}
        for name, file in (("right", "token"), ("wrong", "wrong"))
    ]
    (tmp_path / "wrong").write_text("apy_x_y")
    (tmp_path / "prometheus.yml").write_text(json.dumps({"scrape_configs": jobs}))  # JSON is YAML
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline, states = time.monotonic() + START_TIMEOUT_S, {"right": "unknown"}
        while len(states) < len(jobs) or "unknown" in states.values():
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError, ValueError, KeyError):
                found = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/targets").read())
                states = {each["labels"]["job"]: each["health"] for each in found["data"]["activeTargets"]}
        assert states == {"right": "up", "wrong": "down"}
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (apt install prometheus)")
def test_prometheus_finds_nothing_wrong(broker: Process) -> None:
    metrics = broker.ask("/metrics")[1]
    alerts = REPOSITORY / "conf" / "prometheus" / "alerts.yml"

    for command, text in ((["check", "metrics"], metrics), (["check", "rules", str(alerts)], "")):
        checked = subprocess.run(["promtool", *command], input=text, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")
