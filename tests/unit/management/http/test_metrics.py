"""`/metrics`: formats, who may read it, and that the figures are those of the broker."""

from pathlib import Path

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.access import Subject
from tests.unit.management.http.site import Site, run

OPEN = {"Accept": "application/openmetrics-text; version=1.0.0, text/plain;version=0.0.4;q=0.3"}
NOWHERE = "<anonymous-metrics>NOWHERE</anonymous-metrics>"
EVERYWHERE = "<anonymous-metrics>EVERYWHERE</anonymous-metrics>"


def test_prometheus_gets_the_format_that_it_prefers(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        old = await site.ask("GET", "/metrics")
        new = await site.ask("GET", "/metrics", headers=OPEN)

        assert old.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert new.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert (old.body.endswith("# EOF\n"), new.body.endswith("# EOF\n")) == (False, True)
        assert new.headers["Content-Encoding"] in ("gzip", "deflate")
        plain = await site.ask("GET", "/metrics", headers={"Accept-Encoding": "identity"})
        assert "Content-Encoding" not in plain.headers

    run(tmp_path, steps)


def test_figures_are_those_of_the_broker(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        with site.broker.in_turn():
            session = site.broker.services.sessions.open(Subject("x", frozenset({"amq"})))
            for _ in range(3):
                session.producer("orders").send(plain_message("orders", MessageView(body="x")))
            session.close()
        await site.ask("GET", "/api/v1/broker", user=("admin", "wrong"))

        found = (await site.ask("GET", "/metrics")).body

        assert 'artemis_py_queue_messages{state="waiting"} 3\n' in found
        assert "artemis_py_messages_routed_total 3\n" in found
        assert 'artemis_py_logins_total{result="failure"} 1\n' in found

    run(tmp_path, steps, security=True)


@pytest.mark.parametrize(
    ("web", "proxied", "login", "status"),
    [
        ("", False, None, 200),
        ("", True, None, 401),
        ("", True, ("watcher", "pass"), 200),
        ("", True, ("watcher", "wrong"), 401),
        (NOWHERE, False, None, 401),
        (NOWHERE, False, ("watcher", "pass"), 200),
        (EVERYWHERE, True, None, 200),
    ],
)
def test_who_may_read(tmp_path: Path, web: str, proxied: bool, login: tuple[str, str] | None, status: int) -> None:
    async def steps(site: Site) -> None:
        headers = {"X-Forwarded-For": "192.0.2.1"} if proxied else {}
        assert (await site.ask("GET", "/metrics", user=login, headers=headers)).status == status

    run(tmp_path, steps, security=True, web=web)


def test_the_name_of_another_host_is_not_answered_without_a_login(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert (await site.ask("GET", "/metrics", headers={"Host": "evil.example"})).status == 421

    run(tmp_path, steps, security=True)


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert (await site.ask("GET", "/metrics")).status == 404

    run(tmp_path, steps, web="<metrics>false</metrics>")
