"""Sessions over HTTP: the cookie, what a change needs besides it, and what ends a session."""

import logging
import ssl
from collections.abc import Callable, Mapping
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest

from tests.unit.management.http.site import Answer, Site, run

API = "/api/v1"
CERTIFICATES = Path(__file__).parents[3] / "transport" / "certificates"
ADMIN = {"name": "admin", "password": "secret"}


class Browser:
    """A browser as far as the broker sees one: it keeps cookies, and says which page asks."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.cookies: dict[str, str] = {}
        self.csrf: str | None = None

    async def ask(
        self, method: str, path: str, json: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request as a page of the console does, with `headers` in place of its own; empty ones are left out."""
        sent = {"X-Artemis-Login": "page", "Sec-Fetch-Site": "same-origin", "Origin": self.site.url}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if self.csrf is not None:
            sent["X-Artemis-Csrf"] = self.csrf
        sent = {name: value for name, value in {**sent, **(headers or {})}.items() if value}
        answer = await self.site.ask(method, path, json, headers=sent)
        for name, morsel in SimpleCookie(answer.headers.get("Set-Cookie", "")).items():
            if morsel["max-age"] == "0":
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value
        return answer

    async def log_in(self, name: str = "admin", password: str = "secret") -> Any:
        """Log in; return what the broker says about it."""
        answer = await self.ask("POST", f"{API}/login", {"name": name, "password": password})
        assert answer.status == 200, answer
        self.csrf = answer.body["csrf"]
        return answer.body


def users_of(folder: Path, users: str, roles: str = "amq = admin\nwatchers = watcher\n") -> None:
    """Change the users of a broker; it looks when it is told."""
    (folder / "artemis-users.properties").write_text(users)
    (folder / "artemis-roles.properties").write_text(roles)


def look(site: Site) -> None:
    """Have the broker read its users."""
    logins = site.broker._logins
    assert logins is not None
    logins.watch.look_now()


def test_a_session_stands_for_name_and_password(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def steps(site: Site) -> None:
        browser = Browser(site)
        assert (await browser.ask("GET", f"{API}/broker")).status == 401
        known = await browser.log_in()
        assert (known["user"], known["by"], known["idleSeconds"], known["leftSeconds"]) == (
            "admin",
            "session",
            1800,
            12 * 3600,
        )
        assert (await browser.ask("GET", f"{API}/broker")).status == 200
        assert (await browser.ask("POST", f"{API}/queues/orders/pause", [])).status == 200
        again = await browser.ask("GET", f"{API}/login")
        assert (again.body["user"], again.body["csrf"]) == ("admin", known["csrf"])

        left = await browser.ask("POST", f"{API}/logout")
        assert (left.status, browser.cookies) == (204, {})
        answer = await browser.ask("GET", f"{API}/broker")
        assert (answer.status, answer.body["code"]) == (401, "login-needed")

    run(tmp_path, steps, security=True)
    assert "session opened: user=admin peer=127.0.0.1:" in caplog.text
    assert "session ended by its user: user=admin peer=127.0.0.1:" in caplog.text


def test_the_cookie_is_kept_from_scripts_and_other_sites(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        answer = await site.ask("POST", f"{API}/login", ADMIN)
        port = site.url.rpartition(":")[2]
        name, _, rest = answer.headers["Set-Cookie"].partition("=")
        value, _, attributes = rest.partition("; ")

        assert (name, len(value)) == (f"artemis-{port}", 43)
        assert attributes == "Path=/; HttpOnly; SameSite=Strict"
        assert answer.headers["Cache-Control"] == "no-store"

    run(tmp_path, steps, security=True)


def test_over_tls_the_cookie_is_for_this_host_and_tls_only(tmp_path: Path) -> None:
    """A certificate logs in without one, and a session takes its place."""

    async def steps(site: Site) -> None:
        tls = ssl.create_default_context(cafile=CERTIFICATES / "authority.pem")
        tls.load_cert_chain(CERTIFICATES / "client.pem")
        who = await site.ask("GET", f"{API}/login", tls=tls)
        assert (who.body["by"], who.body["user"][:9]) == ("certificate", "CN=client")
        answer = await site.ask("POST", f"{API}/login", ADMIN, tls=tls)
        cookie, _, attributes = answer.headers["Set-Cookie"].partition("; ")
        assert cookie.startswith(f"__Host-artemis-{site.url.rpartition(':')[2]}=")
        assert attributes == "Path=/; HttpOnly; SameSite=Strict; Secure"
        who = await site.ask("GET", f"{API}/login", tls=tls, headers={"Cookie": cookie})
        assert (who.body["by"], who.body["user"]) == ("session", "admin")

    folder = CERTIFICATES
    bind = f"https://127.0.0.1:0?keyStorePath={folder}/broker.pem;trustStorePath={folder}/authority.pem"
    run(tmp_path, steps, security=True, bind=bind)


def test_an_old_cookie_opens_nothing(tmp_path: Path) -> None:
    """Neither that of a session that was logged out, nor the one before another login, nor a made-up one."""

    async def steps(site: Site) -> None:
        browser = Browser(site)
        await browser.log_in()
        first = dict(browser.cookies)
        await browser.log_in()
        second = dict(browser.cookies)
        assert first != second
        await browser.ask("POST", f"{API}/logout")
        for cookies in (first, second, dict.fromkeys(first, "A" * 43)):
            browser.cookies = dict(cookies)
            answer = await browser.ask("GET", f"{API}/broker")
            assert (answer.status, answer.body["code"], browser.cookies) == (401, "session-ended", {})

    run(tmp_path, steps, security=True)


def test_a_session_that_has_ended_does_not_hide_what_needs_no_login(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        browser = Browser(site)
        browser.cookies = {f"artemis-{site.url.rpartition(':')[2]}": "old"}
        assert (await browser.ask("GET", f"{API}/broker")).body["code"] == "session-ended"
        assert (await browser.ask("GET", f"{API}/login")).body == {"user": None, "by": "anonymous"}

    run(tmp_path, steps, security=True, anonymous="LOOPBACK")


OURS: tuple[dict[str, str], ...] = ({}, {"Sec-Fetch-Site": ""}, {"Origin": ""})
OF_OTHERS: tuple[dict[str, str], ...] = (
    {"Sec-Fetch-Site": "", "Origin": ""},
    {"Sec-Fetch-Site": "none", "Origin": ""},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "", "Origin": "http://127.0.0.1:1"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "null"},
    {"X-Artemis-Csrf": ""},
    {"X-Artemis-Csrf": "x"},
    {"X-Artemis-Csrf": "\u00e9"},
)


def test_a_change_needs_our_origin_and_the_value_of_the_session(tmp_path: Path) -> None:
    changes: tuple[tuple[str, str, object], ...] = (
        ("POST", f"{API}/queues", {"name": "x", "address": "x"}),
        ("PATCH", f"{API}/queues/x", {"maxConsumers": 3}),
        ("POST", f"{API}/queues/x/pause", []),
        ("POST", "/console/jolokia", {"type": "version"}),
        ("DELETE", f"{API}/queues/x", None),
        ("POST", f"{API}/logout", None),
    )

    async def steps(site: Site) -> None:
        browser = Browser(site)
        await browser.log_in()
        for headers in OF_OTHERS:
            for method, path, body in changes:
                answer = await browser.ask(method, path, body, headers)
                assert (answer.status, answer.body["code"]) == (403, "cross-site"), (path, headers)
            assert (await browser.ask("GET", f"{API}/broker", headers=headers)).status == 200
        for headers in OURS:
            await browser.log_in()
            for method, path, body in changes:
                answer = await browser.ask(method, path, body, headers)
                assert answer.status < 300, (path, headers, answer)

    run(tmp_path, steps, security=True)


def test_the_value_of_another_session_does_not_help(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        one, other = Browser(site), Browser(site)
        await one.log_in()
        await other.log_in()
        one.csrf = other.csrf
        assert (await one.ask("POST", f"{API}/queues/orders/pause", [])).status == 403

    run(tmp_path, steps, security=True)


def test_a_request_with_a_login_of_its_own_never_uses_the_cookie(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        browser = Browser(site)
        await browser.log_in()
        for header in ("Basic d2F0Y2hlcjpwYXNz", "Basic d2F0Y2hlcjp4", "Bearer x"):
            answer = await browser.ask("GET", f"{API}/broker", headers={"Authorization": header})
            assert answer.status in (401, 403), header
        named = await browser.ask("GET", f"{API}/login", headers={"Authorization": "Basic d2F0Y2hlcjpwYXNz"})
        assert named.body == {"user": "watcher", "by": "password"}
        refused = await browser.ask("POST", f"{API}/logout", headers={"Authorization": "Basic d2F0Y2hlcjpwYXNz"})
        assert (refused.status, refused.body["code"]) == (409, "no-session")

    run(tmp_path, steps, security=True)


def test_wrong_logins_are_refused_without_a_dialog_of_the_browser(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(site: Site) -> None:
        browser = Browser(site)
        for name, password in (("admin", "x"), ("nobody", "secret"), ("admin", "")):
            answer = await browser.ask("POST", f"{API}/login", {"name": name, "password": password})
            assert (answer.status, answer.body["detail"]) == (401, "the name or the password is wrong")
            assert "WWW-Authenticate" not in answer.headers
        assert browser.cookies == {}
        assert "WWW-Authenticate" not in (await browser.ask("GET", f"{API}/broker")).headers
        assert (
            "WWW-Authenticate" in (await browser.ask("GET", f"{API}/broker", headers={"X-Artemis-Login": ""})).headers
        )

    run(tmp_path, steps, security=True)
    assert "login failed: user='admin' peer=127.0.0.1:" in caplog.text
    assert "mechanism=password reason=wrong password" in caplog.text


def test_wrong_logins_slow_their_address_down(tmp_path: Path) -> None:
    """The same brake as for every login: it is on after five of them, and counts those that wait."""

    async def steps(site: Site) -> None:
        browser = Browser(site)
        for _ in range(5):
            await browser.ask("POST", f"{API}/login", {"name": "admin", "password": "x"})
        logins = site.broker._logins
        assert logins is not None
        waited: list[float] = []

        def call_later(delay_s: float, run: Callable[[], None]) -> None:
            waited.append(delay_s)
            run()

        logins.service._call_later = call_later
        await browser.ask("POST", f"{API}/login", {"name": "admin", "password": "x"})
        assert waited == [1.0]

    run(tmp_path, steps, security=True)


def test_what_is_no_login_is_refused(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        wrong: tuple[object, ...] = (
            {},
            [],
            {"name": "admin"},
            {"name": "", "password": "x"},
            {"name": 1, "password": "x"},
            {"name": "admin", "password": "\ud800"},
        )
        for body in wrong:
            assert (await site.ask("POST", f"{API}/login", body)).status == 400, body

    run(tmp_path, steps, security=True)


def test_pages_of_other_sites_log_nobody_in(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for headers in (
            {"Origin": "http://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Content-Type": "text/plain"},
        ):
            answer = await site.ask("POST", f"{API}/login", ADMIN, headers=headers)
            assert (answer.status in (403, 415), "Set-Cookie" in answer.headers) == (True, False), headers

    run(tmp_path, steps, security=True)


@pytest.mark.parametrize(
    ("users", "roles"),
    [
        ("watcher = pass\n", "watchers = watcher\n"),
        ("admin = other\nwatcher = pass\n", "amq = admin\nwatchers = watcher\n"),
        ("admin = secret\nwatcher = pass\n", "amq = admin\nwatchers = watcher, admin\n"),
        ("admin = secret\nwatcher = pass\n", "watchers = watcher\n"),
    ],
    ids=["removed", "password", "new role", "no role"],
)
def test_changed_users_end_their_sessions(tmp_path: Path, users: str, roles: str) -> None:
    async def steps(site: Site) -> None:
        browser, other = Browser(site), Browser(site)
        await browser.log_in()
        await other.log_in("watcher", "pass")
        users_of(tmp_path, users, roles)
        look(site)
        assert (await browser.ask("GET", f"{API}/broker")).body["code"] == "session-ended"
        assert (await other.ask("GET", f"{API}/login")).body["user"] == "watcher"

    run(tmp_path, steps, security=True)


def test_a_login_that_is_checked_while_the_users_change_opens_no_session(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert site.broker.web is not None
        logins = site.broker._logins
        assert logins is not None
        submit = logins.service._submit

        def change_meanwhile(job: Any, done: Any) -> None:
            users_of(tmp_path, "admin = other\nwatcher = pass\n")
            look(site)
            submit(job, done)

        logins.service._submit = change_meanwhile
        answer = await site.ask("POST", f"{API}/login", ADMIN)
        assert (answer.status, "Set-Cookie" in answer.headers) == (503, False)

    run(tmp_path, steps, security=True)


def test_a_user_without_permission_is_told_so(tmp_path: Path) -> None:
    """403: another login is not asked for, because there is one."""

    async def steps(site: Site) -> None:
        browser = Browser(site)
        await browser.log_in("watcher", "pass")
        answer = await browser.ask("GET", f"{API}/broker")
        assert (answer.status, answer.body["code"]) == (403, "not-authorized")
        assert (await browser.ask("GET", "/metrics")).status == 200

    run(tmp_path, steps, security=True, web="<anonymous-metrics>NOWHERE</anonymous-metrics>")


def test_without_security_any_name_has_a_session_but_no_other_host_does(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        browser = Browser(site)
        assert (await browser.log_in("anybody", "x"))["user"] == "anybody"
        assert (await browser.ask("POST", f"{API}/queues/orders/pause", [])).status == 200
        for path, body in ((f"{API}/login", ADMIN), (f"{API}/broker/listQueues", [])):
            answer = await site.ask("POST", path, body, headers={"Host": "evil.example"})
            assert answer.status == 421

    run(tmp_path, steps)


def test_the_console_is_there_before_a_login(tmp_path: Path) -> None:
    """Its page asks; with `login=basic`, the browser does."""

    async def steps(site: Site) -> None:
        page = await site.ask("GET", "/console/")
        assert (page.status, "WWW-Authenticate" in page.headers) == (200, False)
        asked = await site.ask("GET", "/console/?login=basic")
        assert (asked.status, asked.headers["WWW-Authenticate"][:5]) == (401, "Basic")
        assert (await site.ask("GET", "/console/?login=basic", user=("admin", "secret"))).status == 200

    run(tmp_path, steps, security=True)
