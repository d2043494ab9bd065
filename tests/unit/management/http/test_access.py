"""Who may ask: logins, and what pages of other web sites make a browser send."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.management.http.site import Site, run

API = "/api/v1"
ADMIN = ("admin", "secret")


def test_a_name_and_password_are_asked_for(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for path in (f"{API}/broker", f"{API}/queues", "/console/jolokia/version", f"{API}/queues/orders/messages"):
            answer = await site.ask("GET", path)
            assert (answer.status, answer.body["code"]) == (401, "login-needed")
            assert answer.headers["WWW-Authenticate"] == 'Basic realm="artemis_py", charset="UTF-8"'
            assert (await site.ask("GET", path, user=ADMIN)).status == 200

    run(tmp_path, steps, security=True)


def test_questions_without_a_name_are_no_attempts_to_guess(tmp_path: Path) -> None:
    """A browser asks each time without a name first."""

    async def steps(site: Site) -> None:
        for _ in range(20):
            assert (await site.ask("GET", f"{API}/broker")).status == 401
        async with asyncio.timeout(0.9):  # a braked address waits for a second
            assert (await site.ask("GET", f"{API}/broker", user=ADMIN)).status == 200

    run(tmp_path, steps, security=True)


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Bearer x", "Basic YQ==", "Basic /////w=="])
def test_a_header_that_is_no_login_is_refused(tmp_path: Path, header: str) -> None:
    async def steps(site: Site) -> None:
        answer = await site.ask("GET", f"{API}/broker", headers={"Authorization": header})
        assert (answer.status, answer.body["code"]) == (401, "login-failed")

    run(tmp_path, steps, security=True, anonymous="EVERYWHERE")


def test_a_wrong_password_is_refused_in_the_same_words_as_a_wrong_name(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        answers = [await site.ask("GET", f"{API}/broker", user=user) for user in (("admin", "x"), ("nobody", "secret"))]

        assert {(each.status, each.body["detail"]) for each in answers} == {
            (401, "the name or the password is wrong"),
        }

    run(tmp_path, steps, security=True)


def test_who_may_not_manage_is_refused(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for method, path in (("GET", f"{API}/queues"), ("POST", f"{API}/queues/orders/purge")):
            answer = await site.ask(method, path, None if method == "GET" else [], user=("watcher", "pass"))
            assert (answer.status, answer.body["code"]) == (403, "not-authorized")
            assert "lacks permission 'manage'" in answer.body["detail"]
        assert site.broker.services.sessions.opened == {}

    run(tmp_path, steps, security=True)


def test_no_name_is_needed_where_the_configuration_says_so(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert (await site.ask("GET", f"{API}/broker")).status == 200
        for header in ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"):
            answer = await site.ask("GET", f"{API}/broker", headers={header: "x"})
            assert answer.status == 401, f"a proxy on this machine passes everybody on ({header})"

    run(tmp_path, steps, security=True, anonymous="LOOPBACK")


def test_clients_without_a_name_have_their_roles_only(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        answer = await site.ask("GET", f"{API}/broker")
        # A browser asks its user for a name then.
        assert (answer.status, "lacks permission 'manage'" in answer.body["detail"]) == (401, True)
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        assert (await site.ask("GET", f"{API}/broker", user=ADMIN)).status == 200

    run(tmp_path, steps, security=True, anonymous="LOOPBACK", roles="guests")


@pytest.mark.parametrize("security", [True, False])
def test_without_a_password_only_addresses_are_answered(tmp_path: Path, security: bool) -> None:
    """A page whose name comes to mean this machine (DNS rebinding) cannot ask."""

    async def steps(site: Site) -> None:
        for host, status in (
            ("evil.example", 421),
            ("localhost.evil.example:8161", 421),
            ("localhost:8161", 200),
            ("b.localhost", 200),
            ("[::1]:8161", 200),
            ("192.168.1.9", 200),
            ("[", 421),
            ("", 421),
        ):
            assert (await site.ask("GET", f"{API}/broker", headers={"Host": host})).status == status, host
        if security:
            assert (await site.ask("GET", f"{API}/broker", headers={"Host": "evil.example"}, user=ADMIN)).status == 200
        else:  # any password is right
            assert (await site.ask("GET", f"{API}/broker", headers={"Host": "evil.example"}, user=ADMIN)).status == 421
        assert (await site.ask("GET", "/health/ready", headers={"Host": "evil.example"})).status == 200

    run(tmp_path, steps, security=security, anonymous="LOOPBACK")


def test_pages_of_other_sites_change_nothing(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for method, path, body in (
            ("POST", f"{API}/queues/orders/pause", []),
            ("DELETE", f"{API}/queues/orders", None),
            ("PATCH", f"{API}/queues/orders", {"max-consumers": 1}),
            ("POST", f"{API}/queues", {"name": "x", "address": "x"}),
            ("POST", f"{API}/broker/destroyQueue", ["orders"]),
        ):
            for headers in (
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Origin": "http://[/"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Sec-Fetch-Site": "same-site"},
            ):
                answer = await site.ask(method, path, body, user=ADMIN, headers=headers)
                assert (answer.status, answer.body["code"]) == (403, "cross-site")
        queue = site.broker.domain.find_queue("orders")
        assert queue is not None
        assert not queue.paused

        own = {"Origin": site.url, "Sec-Fetch-Site": "same-origin"}
        assert (await site.ask("POST", f"{API}/queues/orders/pause", [], user=ADMIN, headers=own)).status == 200

    run(tmp_path, steps, security=True)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_can_send_changes_nothing(tmp_path: Path, kind: str) -> None:
    async def steps(site: Site) -> None:
        answer = await site.ask("POST", f"{API}/queues/orders/purge", [], user=ADMIN, headers={"Content-Type": kind})
        assert (answer.status, answer.body["code"]) == (415, "not-json")

    run(tmp_path, steps, security=True)


def test_no_other_origin_may_read(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        answer = await site.ask("GET", f"{API}/broker", headers={"Origin": "http://evil.example"})
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        asked = await site.ask("OPTIONS", f"{API}/queues", headers={"Origin": "http://evil.example"})
        assert asked.status == 405

    run(tmp_path, steps)
