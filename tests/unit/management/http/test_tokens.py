"""Tokens over HTTP: how they are made, what each scope opens, and that no log has one."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.unit.management.http.site import Answer, Site, run

API = "/api/v1"
ADMIN = ("admin", "secret")
METRICS_LOCKED = "<anonymous-metrics>NOWHERE</anonymous-metrics>"


async def make(site: Site, **wanted: object) -> Any:
    """Make a token of `admin`."""
    answer = await site.ask("POST", f"{API}/tokens", {"name": "t", **wanted}, user=ADMIN)
    assert answer.status == 201, answer
    return answer.body["result"]


async def ask(site: Site, token: str, method: str, path: str, body: object = None) -> Answer:
    """Ask with a token."""
    return await site.ask(method, path, body, headers={"Authorization": f"Bearer {token}"})


def test_a_token_is_its_owner(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        made = await make(site, days=3)
        assert made["expirationTime"] - made["creationTime"] == 3 * 86_400_000
        assert (made["owner"], made["scope"], made["durable"], made["expired"]) == ("admin", "all", False, False)
        token = made["token"]
        assert (await ask(site, token, "GET", f"{API}/login")).body == {"user": "admin", "by": "token"}
        assert (await ask(site, token, "GET", f"{API}/queues")).status == 200
        assert (await ask(site, token, "POST", f"{API}/queues/orders/pause", [])).status == 200
        # No header against forgery: no browser sends this by itself.
        listed = await ask(site, token, "GET", f"{API}/tokens")
        assert [(row["id"], row["lastUsedTime"] > 0) for row in listed.body["data"]] == [(made["id"], True)]
        assert token not in str(listed.body)

        gone = await site.ask("DELETE", f"{API}/tokens/{made['id']}", user=ADMIN)
        assert gone.status == 204
        answer = await ask(site, token, "GET", f"{API}/queues")
        assert (answer.status, answer.body["detail"]) == (401, "the token is wrong, has ended or was revoked")
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="artemis_py", error="invalid_token"'
        assert (await site.ask("DELETE", f"{API}/tokens/{made['id']}", user=ADMIN)).status == 404

    run(tmp_path, steps, security=True)


Request = tuple[str, str, object]

PAUSE: Request = ("POST", f"{API}/queues/orders/pause", [])
CREATE: Request = ("POST", f"{API}/queues", {"name": "x", "address": "x"})
LIST: Request = ("GET", f"{API}/queues", None)
WHO: Request = ("GET", f"{API}/login", None)
OPERATION: Request = ("POST", f"{API}/broker/listQueues", [])
SCRAPE: Request = ("GET", "/metrics", None)
BROKER = 'org.apache.activemq.artemis:broker="b"'
READ: Request = ("POST", "/console/jolokia", {"type": "read", "mbean": BROKER, "attribute": "QueueCount"})
SEARCH: Request = ("GET", f"/console/jolokia/read/{BROKER.replace(chr(34), '%22')}/QueueCount", None)


@pytest.mark.parametrize(
    ("scope", "opens", "refuses"),
    [
        ("all", [PAUSE, CREATE, LIST, WHO, OPERATION, SCRAPE, READ, SEARCH], []),
        ("read", [LIST, WHO, SCRAPE, READ, SEARCH], [PAUSE, CREATE, OPERATION]),
        ("metrics", [SCRAPE], [PAUSE, CREATE, LIST, WHO, OPERATION, READ, SEARCH]),
    ],
)
def test_a_scope_opens_no_more_than_it_says(
    tmp_path: Path, scope: str, opens: list[Request], refuses: list[Request]
) -> None:
    async def steps(site: Site) -> None:
        token = (await make(site, scope=scope))["token"]
        for method, path, body in opens:
            answer = await ask(site, token, method, path, body)
            assert answer.status in (200, 201), (path, answer)
            assert "jolokia" not in path or answer.body["status"] == 200
        for method, path, body in refuses:
            answer = await ask(site, token, method, path, body)
            assert (answer.status, answer.body["code"]) == (403, "not-authorized"), (path, answer)
        assert (await site.ask("GET", "/metrics")).status == 401

    run(tmp_path, steps, security=True, web=METRICS_LOCKED)


def test_a_token_that_reads_changes_nothing_through_jolokia(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        token = (await make(site, scope="read"))["token"]
        name = (
            f'{BROKER},component=addresses,address="orders",subcomponent=queues,routing-type="anycast",queue="orders"'
        )
        pause = {"type": "exec", "mbean": name, "operation": "pause", "arguments": []}
        count = {"type": "exec", "mbean": name, "operation": "countMessages()", "arguments": []}
        answer = await ask(site, token, "POST", "/console/jolokia", [pause, count])
        assert [each["status"] for each in answer.body] == [403, 200]
        queue = site.broker.domain.find_queue("orders")
        assert queue is not None
        assert not queue.paused

    run(tmp_path, steps, security=True)


def test_a_token_is_not_wrong_because_the_store_has_not_been_read(tmp_path: Path) -> None:
    """A scrape while the broker starts is no attempt to guess."""

    async def steps(site: Site) -> None:
        token = (await make(site))["token"]
        logins = site.broker._logins
        assert logins is not None
        site.broker.tokens.is_restored = False
        answer = await ask(site, token, "GET", "/metrics")
        assert (answer.status, answer.body["code"], logins.service.failed) == (503, "host-stopped", 0)
        site.broker.tokens.restore(logins.service.users)
        assert (await ask(site, token, "GET", "/metrics")).status == 200

    run(tmp_path, steps, security=True)


def test_a_token_makes_no_tokens(tmp_path: Path) -> None:
    """One that could would be as good as one that never ends."""

    async def steps(site: Site) -> None:
        token = (await make(site))["token"]
        create = {"type": "exec", "mbean": BROKER, "operation": "createToken", "arguments": [{"name": "more"}]}
        for path, body in (
            (f"{API}/tokens", {"name": "more"}),
            (f"{API}/broker/createToken", [{"name": "more"}]),
        ):
            answer = await ask(site, token, "POST", path, body)
            assert (answer.status, answer.body["detail"][:22]) == (403, "a token makes no token")
        assert (await ask(site, token, "POST", "/console/jolokia", create)).body["status"] == 403
        assert len(list(site.broker.tokens)) == 1

    run(tmp_path, steps, security=True)


def test_a_user_who_may_not_manage_makes_no_token(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        answer = await site.ask("POST", f"{API}/tokens", {"name": "t"}, user=("watcher", "pass"))
        assert (answer.status, answer.body["code"]) == (403, "not-authorized")
        assert list(site.broker.tokens) == []

    run(tmp_path, steps, security=True)


def test_nobody_owns_no_token(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        answer = await site.ask("POST", f"{API}/tokens", {"name": "t"})
        assert (answer.status, answer.body["detail"]) == (
            400,
            "a token belongs to a user: log in with a name and a password, or a certificate",
        )

    run(tmp_path, steps, security=True, anonymous="LOOPBACK")


def test_what_is_wrong_with_a_wish_is_said(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for wanted in (
            {"days": 0},
            {"days": "1"},
            {"days": True},
            {"scope": "rea"},
            {"scope": 1},
            {"name": 1},
            {"nam": "x"},
        ):
            answer = await site.ask("POST", f"{API}/tokens", {"name": "t", **wanted}, user=ADMIN)
            assert (answer.status, answer.body["code"]) == (400, "invalid-request"), wanted

    run(tmp_path, steps, security=True)


def test_managers_of_a_virtual_host_have_no_tokens(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        await make(site)
        for method, path, body in (
            ("GET", f"{API}/tokens?host=blue", None),
            ("POST", f"{API}/tokens?host=blue", {"name": "other"}),
            ("DELETE", f"{API}/tokens/x?host=blue", None),
        ):
            answer = await site.ask(method, path, body, user=ADMIN)
            assert (answer.status, "default host" in answer.body["detail"]) == (400, True)

    run(tmp_path, steps)


def test_an_owner_who_is_removed_takes_his_tokens_with_him(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        token = (await make(site))["token"]
        users = tmp_path / "artemis-users.properties"
        users.write_text("admin = a new password\nwatcher = pass\n")
        logins = site.broker._logins
        assert logins is not None
        logins.watch.look_now()
        assert (await ask(site, token, "GET", f"{API}/queues")).status == 200
        users.write_text("watcher = pass\n")
        (tmp_path / "artemis-roles.properties").write_text("watchers = watcher\n")
        logins.watch.look_now()
        assert (await ask(site, token, "GET", f"{API}/queues")).status == 401
        assert list(site.broker.tokens) == []

    run(tmp_path, steps, security=True)


def test_no_log_has_a_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither where it is made, nor where somebody writes it into the wrong place."""
    caplog.set_level(logging.DEBUG)
    made: list[Any] = []

    async def steps(site: Site) -> None:
        made.append(await make(site))
        token = made[0]["token"]
        await ask(site, token, "POST", f"{API}/queues/orders/pause", [])
        await ask(site, f"{token}x", "GET", f"{API}/queues")
        await site.ask("POST", f"{API}/broker/revokeToken", [token], user=ADMIN)
        await site.ask("POST", f"{API}/tokens", {"name": "x", "scope": token}, user=ADMIN)
        await site.ask("POST", f"{API}/broker/{token}", [], user=ADMIN)

    run(tmp_path, steps, security=True)
    secret = made[0]["token"][17:]
    assert f"apy_{made[0]['id']}_…" in caplog.text
    assert "operation=createToken" in caplog.text
    assert secret not in caplog.text
    assert secret[:20] not in caplog.text
