"""The roles of the shipped broker.xml against a broker as a process: what the console and commands may do."""

import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.broker_process import START_TIMEOUT_S, STOP_TIMEOUT_S
from tests.shipped_roles import with_roles

pytest.importorskip("aiohttp", reason="the extra http is not installed")

COMMAND: Final = [sys.executable, "-P", "-m", "artemis_py.cli"]
ROLES: Final = ("monitor", "operator", "admin", "app")
API: Final = "/api/v1"

# What the pages of the console ask for.
READS: Final = (
    "/broker",
    "/broker?attributes=name",
    "/cluster-connections",
    "/queues?field=messageCount&operation=GREATER_THAN&value=0&sortField=messageCount&sortOrder=desc&page=1&pageSize=10",
    "/queues?field=hidden&operation=EQUALS&value=false&sortField=name&sortOrder=asc&page=1&pageSize=100",
    "/queues/DLQ",
    "/consumers?field=queue&operation=EQUALS&value=DLQ&sortField=id&sortOrder=asc&page=1&pageSize=100",
    "/addresses?sortField=name&sortOrder=asc&page=1&pageSize=100",
    "/addresses/DLQ",
    "/connections?field=protocol&operation=NOT_EQUALS&value=HTTP&sortField=connectionID&page=1&pageSize=100",
    "/consumers",
    "/diverts",
    "/exchanges",
    "/members",
    "/whoami",
    "/whoami?resource=queue.DLQ",
    "/whoami?resource=address.DLQ",
)


class Site:
    """The broker, and requests of its users; the name of each is that of its role, and its password."""

    def __init__(self, folder: Path) -> None:
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

    def ask(self, user: str, path: str, body: object = None, method: str = "") -> tuple[int, Any]:
        """The status, and the JSON of the answer."""
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.listening['web'].rstrip('/')}{API}{path}"
        request = urllib.request.Request(url, data, method=method or ("GET" if body is None else "POST"))
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{user}".encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def run(self, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of ours, by AMQP."""
        login = ["--url", f"amqp://{self.listening['artemis']}", "--user", user, "--password", user]
        return subprocess.run([*COMMAND, *arguments, *login], capture_output=True, text=True, timeout=START_TIMEOUT_S)

    def close(self) -> None:
        """Leave nothing running."""
        self.process.terminate()
        self.process.wait(STOP_TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("roles") / "instance"
    ports = ["--port", "0", "--amqp-port", "0", "--mqtt-port", "0"]
    subprocess.run([*COMMAND, "create", str(folder), "--user", "u", "--password", "x", "--silent", *ports], check=True)
    etc = folder / "etc"
    (etc / "broker.xml").write_text(with_roles((etc / "broker.xml").read_text(encoding="utf-8")), encoding="utf-8")
    (etc / "artemis-users.properties").write_text("\n".join(f"{role} = {role}" for role in ROLES))
    (etc / "artemis-roles.properties").write_text("\n".join(f"{role} = {role}" for role in ROLES))
    started = Site(folder)
    sent = started.run("app", "producer", "--destination", "queue://orders", "--message", "x", "--message-count", "3")
    assert sent.returncode == 0, sent.stderr
    yield started
    started.close()


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("user", ["monitor", "operator"])
def test_every_page_of_the_console_can_be_read(site: Site, user: str, path: str) -> None:
    assert site.ask(user, path)[0] == 200


def test_a_monitor_changes_nothing_and_sees_no_messages(site: Site) -> None:
    """And is told which permission is missing, before it tries and when it does."""
    missing = site.ask("monitor", "/whoami?resource=queue.orders&resource=address.orders")[1]["missing"]
    for path, method, body, resource, operation in (
        ("/queues/orders/pause", "POST", [], "queue.orders", "pause"),
        ("/queues/orders/purge", "POST", [], "queue.orders", "purge"),
        ("/queues/orders/moveMessages", "POST", [{"queue": "DLQ"}], "queue.orders", "moveMessages"),
        ("/queues/orders/messages", "GET", None, "queue.orders", "listMessagesAsJSON"),
        ("/queues/orders/messages/1", "GET", None, "queue.orders", "showMessage"),
        ("/queues/orders", "PATCH", {"maxConsumers": 1}, "queue.orders", "updateQueue"),
        ("/queues/orders?force=true", "DELETE", None, "queue.orders", "destroyQueue"),
        ("/addresses/orders/purge", "POST", [], "address.orders", "purge"),
        ("/addresses/orders?force=true", "DELETE", None, "address.orders", "deleteAddress"),
        ("/queues", "POST", {"name": "q"}, "broker", "createQueue"),
        ("/connections/1", "DELETE", None, "broker", "closeConnectionWithID"),
        ("/broker/createDivert", "POST", [{}], "broker", "createDivert"),
    ):
        status, answer = site.ask("monitor", path, body, method)
        lacking = missing[resource][operation]

        assert status == 403, path
        assert f"lacks permission '{lacking['permission']}' on " in answer["detail"]
        assert lacking["on"] in answer["detail"]
    assert site.ask("monitor", "/queues/orders?attributes=messageCount,paused")[1] == {
        "messageCount": 3,
        "paused": False,
    }


def test_an_operator_works_with_queues_and_messages_and_nothing_else(site: Site) -> None:
    assert site.ask("operator", "/queues", {"name": "q", "address": "q", "routingType": "ANYCAST"})[0] == 201
    assert site.ask("operator", "/queues/orders/messages")[1]["count"] == 3
    assert site.ask("operator", "/queues/orders/moveMessages", [None, "q"]) == (200, {"result": 3})
    assert site.ask("operator", "/queues/q/moveMessages", [None, "orders"]) == (200, {"result": 3})
    assert site.ask("operator", "/queues/q", method="DELETE")[0] == 204
    refused = site.ask("operator", "/diverts", {"name": "d", "address": "orders", "forwardingAddress": "q"})
    assert (refused[0], "'edit' on 'mops.broker.createDivert'" in refused[1]["detail"]) == (403, True)
    assert list(site.ask("operator", "/whoami?resource=queue.orders")[1]["missing"]["queue.orders"]) == []
    assert site.ask("admin", "/whoami?resource=queue.orders")[1]["missing"] == {"broker": {}, "queue.orders": {}}


def test_commands_say_what_is_missing(site: Site) -> None:
    """They ask by messages, which need a temporary queue for the replies."""
    listed = site.run("monitor", "queue", "stat", "--name", "orders", "--json")
    refused = site.run("monitor", "queue", "purge", "orders")
    outsider = site.run("app", "queue", "stat")

    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["queues"][0]["messageCount"] == 3
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "user 'monitor' lacks permission 'edit' on 'mops.queue.orders." in refused.stderr
    assert (outsider.returncode, "lacks permission" in outsider.stderr) == (1, True)
