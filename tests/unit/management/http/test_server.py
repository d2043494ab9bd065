"""The server: health, limits, headers, TLS, and what happens when it cannot listen."""

import asyncio
import contextlib
import shutil
import socket
import ssl
from pathlib import Path

import pytest
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.config import BrokerConfig
from artemis_py.config.embedded import embedded_config
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.access import Subject
from artemis_py.core.runtime.background import Steps
from artemis_py.deployment.lifecycle import State
from artemis_py.errors import ConfigError, InUse, Refusal
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.http import administration, login, server
from artemis_py.management.http.config import WebConfig
from artemis_py.management.http.problems import code_of, of_refusal
from tests.unit.management.http.site import Site, run

API = "/api/v1"
CERTIFICATES = Path(__file__).parents[3] / "transport" / "certificates"


def with_web(port: int) -> BrokerConfig:
    """An embedded broker that answers HTTP."""
    return evolve(embedded_config(), web=WebConfig(bind=f"http://127.0.0.1:{port}"))


def test_a_broker_that_runs_is_healthy(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for path, checks in (("live", []), ("started", ["started"]), ("ready", ["started", "store", "clients"])):
            found = await site.get(f"/health/{path}")
            assert found == {"ok": True, "checks": [{"check": name, "ok": True} for name in checks]}

    run(tmp_path, steps, security=True)


def test_a_broker_whose_store_has_failed_is_alive_and_not_ready(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        site.broker.domain.storage_failed("no space left")

        ready = await site.ask("GET", "/health/ready")

        assert (ready.status, ready.body["ok"]) == (503, False)
        assert {"check": "store", "ok": False, "detail": "no space left"} in ready.body["checks"]
        assert (await site.ask("GET", "/health/live")).status == 200
        assert (await site.ask("GET", "/health/started")).status == 200

    run(tmp_path, steps)


def test_a_broker_that_refuses_clients_is_not_ready(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        site.broker.services.sessions.closed_because = "it is drained"

        assert (await site.ask("GET", "/health/ready")).status == 503

    run(tmp_path, steps)


@pytest.mark.parametrize(("state", "text"), [(State.RECOVERING, "starting"), (State.DRAINING, "stopping")])
def test_nothing_is_answered_before_the_broker_serves_clients_or_after(tmp_path: Path, state: State, text: str) -> None:
    async def steps(site: Site) -> None:
        life = site.broker.life
        now, started = life.state, life._started
        life.state, life._started = state, started - 1

        ready = await site.ask("GET", "/health/ready")
        asked = await site.ask("GET", f"{API}/broker")
        life.state, life._started = now, started

        assert (ready.status, ready.body["checks"][0]["detail"]) == (503, f"the broker is {text}")
        assert (asked.status, asked.body["detail"]) == (503, f"the broker is {text}")
        assert asked.headers["Retry-After"]

    run(tmp_path, steps)


def test_answers_forbid_what_a_page_does_not_need(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for path in ("/health/live", "/nothing", f"{API}/broker"):
            headers = (await site.ask("GET", path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert "default-src 'none'" in headers["Content-Security-Policy"]
            assert headers["Server"] == "artemis_py"

    run(tmp_path, steps)


def test_a_connection_that_is_idle_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)

    async def steps(site: Site) -> None:
        port = int(site.url.rpartition(":")[2])
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]

        assert (await site.ask("GET", "/health/live")).status == 200
        ended = [await asyncio.wait_for(reader.read(1), 5) for reader, _ in idle[:2]]

        assert ended == [b"", b""]
        for _, writer in idle:
            writer.close()

    run(tmp_path, steps)


def test_a_burst_of_connections_stays_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are accepted before any of them is open; those for which there is no room are closed."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)

    async def steps(site: Site) -> None:
        port = int(site.url.rpartition(":")[2])
        burst = await asyncio.gather(*[asyncio.open_connection("127.0.0.1", port) for _ in range(20)])
        ends = [asyncio.ensure_future(reader.read(1)) for reader, _ in burst]
        while sum(not end.done() for end in ends) > 3:
            await asyncio.sleep(0)

        assert (await site.ask("GET", "/health/live")).status == 200
        for _, writer in burst:
            writer.close()
        await asyncio.gather(*ends, return_exceptions=True)

    run(tmp_path, steps)


# A login whose body does not come: the connection is busy until its time is over.
UNFINISHED = (
    b"POST /api/v1/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
    b"Expect: 100-continue\r\n\r\n"
)


def test_an_address_does_not_take_all_of_the_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_OF_ADDRESS", 3)

    async def steps(site: Site) -> None:
        port = int(site.url.rpartition(":")[2])
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for reader, _ in idle[:2]:
            assert await asyncio.wait_for(reader.read(1), 5) == b""
        for reader, writer in idle[2:]:
            writer.write(UNFINISHED)
            assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"

        reader, refused = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(1), 5) == b""
        reader, other = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        other.write(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        for writer in (refused, other, *[writer for _, writer in idle]):
            writer.close()

    run(tmp_path, steps)


def test_a_login_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "BODY_S", 0.01)

    async def steps(site: Site) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(site.url.rpartition(":")[2]))
        writer.write(UNFINISHED)
        lines = [await asyncio.wait_for(reader.readline(), 5) for _ in range(3)]
        writer.close()
        assert lines == [b"HTTP/1.1 100 Continue\r\n", b"\r\n", b"HTTP/1.1 408 Request Timeout\r\n"]

    run(tmp_path, steps)


def test_requests_wait_and_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "MOST_AT_A_TIME", 1)
    monkeypatch.setattr(administration, "MOST_WAITING", 2)

    async def steps(site: Site) -> None:
        answers = await asyncio.gather(*[site.ask("GET", f"{API}/queues") for _ in range(20)])

        statuses = [each.status for each in answers]
        assert set(statuses) <= {200, 503}
        assert statuses.count(200) >= 3
        assert (await site.ask("GET", f"{API}/queues")).status == 200

    run(tmp_path, steps)


def test_a_long_operation_is_answered_at_its_end(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        with site.broker.in_turn():
            session = site.broker.services.sessions.open(Subject("x"))
            for number in range(3000):
                view = MessageView(body="x", properties={"number": number})
                session.producer("orders").send(plain_message("orders", view))
            session.close()

        answer = await site.ask("POST", f"{API}/queues/orders/removeMessages", ["number < 2500"])

        assert answer.body == {"result": 2500}

    run(tmp_path, steps)


def test_a_mistake_of_ours_says_nothing_but_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(site: Site) -> None:
        monkeypatch.setattr(administration, "Resources", None)

        answer = await site.ask("GET", f"{API}/broker")

        assert (answer.status, answer.body["code"]) == (500, "internal")
        assert answer.body["detail"].split()[-1] in caplog.text
        assert "Traceback" not in str(answer.body)

    run(tmp_path, steps)


def test_a_mistake_in_a_later_slice_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever, and the place of the request is free again."""

    def fail(*given: object) -> Steps:
        yield None
        raise RuntimeError("planted")

    async def steps(site: Site) -> None:
        monkeypatch.setattr(BrokerControl, "read_many", fail)
        for _ in range(2 * administration.MOST_AT_A_TIME):
            assert (await site.ask("GET", f"{API}/broker")).status == 500
        assert (await site.ask("GET", f"{API}/queues")).status == 200

    run(tmp_path, steps)


def test_a_port_that_is_taken_is_named_with_its_line() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            broker = Broker(with_web(taken.getsockname()[1]))
            with pytest.raises(ConfigError, match=r"web: cannot listen on 127\.0\.0\.1:.*choose a free port"):
                await broker.start()

    asyncio.run(main())


def test_a_certificate_logs_in_over_tls(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        tls = ssl.create_default_context(cafile=CERTIFICATES / "authority.pem")
        assert (await site.ask("GET", f"{API}/broker", tls=tls)).status == 401
        answer = await site.ask("GET", f"{API}/broker", tls=tls, user=("admin", "secret"))
        assert answer.status == 200
        assert answer.headers["Strict-Transport-Security"]

        tls = ssl.create_default_context(cafile=CERTIFICATES / "authority.pem")
        tls.load_cert_chain(CERTIFICATES / "client.pem")
        known = await site.ask("GET", f"{API}/broker", tls=tls)

        # It is somebody, who has no role that may do this.
        assert (known.status, "user 'CN=client," in known.body["detail"]) == (401, True)

    folder = CERTIFICATES
    bind = f"https://127.0.0.1:0?keyStorePath={folder}/broker.pem;trustStorePath={folder}/authority.pem"
    run(tmp_path, steps, security=True, bind=bind)


def test_new_certificates_are_used_after_a_reload(tmp_path: Path) -> None:
    """And files that cannot be used leave the old ones in force."""
    file = tmp_path / "key.pem"
    shutil.copy(CERTIFICATES / "broker.pem", file)

    async def subject(site: Site) -> bytes:
        tls = ssl.create_default_context(cafile=CERTIFICATES / "authority.pem")
        tls.check_hostname = False
        port = int(site.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return shown

    async def steps(site: Site) -> None:
        before = await subject(site)
        file.write_text("nothing")
        refused = site.broker.reload(site.broker.config)
        assert [problem.element for problem in refused.problems] == ["acceptor web"]
        assert await subject(site) == before
        shutil.copy(CERTIFICATES / "client.pem", file)

        assert site.broker.reload(site.broker.config).problems == []
        assert await subject(site) != before

    run(tmp_path, steps, bind=f"https://127.0.0.1:0?keyStorePath={file}")


def test_refusals_have_codes_and_statuses() -> None:
    assert code_of(InUse) == "in-use"
    assert of_refusal(InUse("x")).status == 409
    assert of_refusal(Refusal("x")).status == 409
