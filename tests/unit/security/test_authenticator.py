"""Who is offered what, and how logins are limited, remembered, slowed down and logged (docs/security.md)."""

import logging

import pytest

from artemis_py.core.runtime.access import Subject
from artemis_py.logs import LINES_OF_SOURCE, count_left_out
from artemis_py.peers import address_of
from artemis_py.protocol import LoginOutcome, LoginResult
from artemis_py.security import logins
from artemis_py.security.authenticator import AcceptorAuthenticator, AnonymousAccess, OpenAuthenticator, make_nonce
from artemis_py.security.logins import (
    ADDRESSES_LIMIT,
    BRAKE_DELAY_S,
    BRAKED_LIMIT,
    FREE_FAILURES,
    PENDING_LIMIT,
    REMEMBERED_LIMIT,
    REMEMBERED_S,
)
from tests.unit.security.doubles import Bench, Conversation, users

REFUSED = LoginResult(LoginOutcome.BAD_CREDENTIALS)
BUSY = LoginResult(LoginOutcome.BUSY)
ANN = LoginResult(LoginOutcome.OK, Subject("ann", frozenset(["app", "ops"])))


def test_mechanisms_are_offered_strongest_first_where_they_are_safe() -> None:
    """ANONYMOUS only from this machine, EXTERNAL only with a verified certificate."""
    bench = Bench()

    def offered(**facts: object) -> list[str]:
        return list(bench.authenticator.mechanisms(bench.context(**facts)))  # type: ignore[arg-type]

    assert offered() == ["SCRAM-SHA-256", "PLAIN"]
    assert offered(is_loopback=True) == ["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"]
    assert offered(is_encrypted=True) == ["SCRAM-SHA-256", "PLAIN"]
    assert offered(is_encrypted=True, certificate_subject="CN=x") == ["EXTERNAL", "SCRAM-SHA-256", "PLAIN"]
    assert offered(certificate_subject="CN=x") == ["SCRAM-SHA-256", "PLAIN"]


@pytest.mark.parametrize(
    ("access", "from_here", "from_afar"),
    [
        (AnonymousAccess.LOOPBACK, True, False),
        (AnonymousAccess.EVERYWHERE, True, True),
        (AnonymousAccess.NOWHERE, False, False),
    ],
)
def test_anonymous_access_is_a_matter_of_configuration(
    access: AnonymousAccess, from_here: bool, from_afar: bool
) -> None:
    """Issue: anonymous only on loopback unless the configuration says so; with the roles it says."""
    bench = Bench()
    roles = frozenset(["guests"])
    authenticator = AcceptorAuthenticator(bench.logins, ["ANONYMOUS"], access, roles)
    for is_loopback, allowed in [(True, from_here), (False, from_afar)]:
        context = bench.context(is_loopback=is_loopback)
        results: list[LoginResult] = []

        authenticator.login(None, None, context, results.append)

        assert list(authenticator.mechanisms(context)) == ["ANONYMOUS"] * allowed
        assert (authenticator.begin("ANONYMOUS", context) is not None) is allowed
        assert results == [LoginResult(LoginOutcome.OK, Subject(None, roles)) if allowed else REFUSED]


def test_what_is_not_offered_cannot_be_begun() -> None:
    """A client may name a mechanism that it was not offered, or that nobody knows."""
    bench = Bench()
    authenticator = AcceptorAuthenticator(bench.logins, ["SCRAM-SHA-256"])
    results: list[LoginResult] = []

    assert authenticator.begin("PLAIN", bench.context()) is None
    assert authenticator.begin("ANONYMOUS", bench.context(is_loopback=True)) is None
    assert authenticator.begin("EXTERNAL", bench.context()) is None
    assert authenticator.begin("CRAM-MD5", bench.context()) is None
    authenticator.login("ann", "secret", bench.context(), results.append)
    authenticator.login(None, None, bench.context(is_loopback=True), results.append)
    assert results == [REFUSED, REFUSED]


def test_passwords_over_plain_tcp_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Artemis' users expect PLAIN on plain TCP; the operator should know."""
    bench = Bench()
    for facts in [{"is_loopback": True}, {"is_encrypted": True}]:
        bench.authenticator.mechanisms(bench.context(**facts))  # type: ignore[arg-type]
    assert caplog.records == []

    for _ in range(3):
        bench.authenticator.mechanisms(bench.context())
        bench.login("ann", "secret")

    assert [record.getMessage() for record in caplog.records] == [
        "passwords cross the network in clear text: peer=10.0.0.1:5000; use TLS (docs/security.md)"
    ]


def test_login_without_sasl_checks_name_and_password() -> None:
    """For protocols that carry them in their first packet."""
    bench = Bench()

    assert bench.login("ann", "secret") == ANN
    assert bench.login("ann", "wrong") == REFUSED
    assert bench.login("ann", None) == REFUSED
    assert bench.login("nobody", "secret") == REFUSED


def test_passwords_are_hashed_elsewhere() -> None:
    """reliability §5.2: nothing slow on the event loop; the answer comes when the worker is done."""
    bench = Bench()
    results: list[LoginResult] = []

    bench.authenticator.login("ann", "secret", bench.context(), results.append)
    assert results == []

    bench.work()
    assert results == [ANN]


def test_hashes_that_wait_are_limited() -> None:
    """reliability §5.2: a bounded queue; who comes when it is full is told so, and the next one after it is not."""
    bench = Bench()
    results: list[LoginResult] = []
    for _ in range(PENDING_LIMIT + 1):
        bench.authenticator.login("ann", "secret", bench.context(), results.append)
    assert results == [BUSY]

    bench.work()

    assert results == [BUSY] + [ANN] * PENDING_LIMIT
    bench.now += REMEMBERED_S
    assert bench.login("ann", "secret") == ANN


def test_successful_logins_are_remembered_for_a_moment() -> None:
    """A fleet that reconnects with one user costs one hash; the time is that of Artemis' authentication cache."""
    bench = Bench()
    for _ in range(3):
        assert bench.login("ann", "secret") == ANN
    assert bench.hashed == 1

    assert bench.login("ann", "secret2") == REFUSED
    assert bench.login("anns", "ecret") == REFUSED
    assert bench.hashed == 3

    bench.now += REMEMBERED_S
    assert bench.login("ann", "secret") == ANN
    assert bench.hashed == 4


def test_failed_logins_are_not_remembered() -> None:
    """A password that becomes right must work at once."""
    bench = Bench()
    assert bench.login("ann", "wrong") == REFUSED
    assert bench.login("ann", "wrong") == REFUSED
    assert bench.hashed == 2


def test_changed_users_apply_to_the_next_login() -> None:
    """Also to one whose hash is being computed: its success is not remembered for the new users."""
    bench = Bench()
    assert bench.login("ann", "secret") == ANN
    bench.logins.replace_users(users())
    bench.login("ann", "secret")
    assert bench.hashed == 2

    results: list[LoginResult] = []
    bench.now += REMEMBERED_S
    bench.authenticator.login("ann", "secret", bench.context(), results.append)
    bench.logins.replace_users(users())
    bench.work()
    bench.login("ann", "secret")
    assert bench.hashed == 4


def test_remembered_logins_are_bounded_and_hold_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes; what is kept is a keyed hash."""
    monkeypatch.setattr(logins, "REMEMBERED_LIMIT", 2)
    bench = Bench()
    subject = Subject("x")
    for number in range(3):
        bench.logins._remember(bench.logins._digest("ann", f"secret{number}"), subject)

    assert len(bench.logins._remembered) == 2
    assert bench.logins._recall(bench.logins._digest("ann", "secret0")) is None
    assert bench.logins._recall(bench.logins._digest("ann", "secret2")) is subject
    assert "secret" not in repr(bench.logins._remembered)
    assert REMEMBERED_LIMIT == 1000


def guess(bench: Bench, count: int, peer: str = "10.0.0.1:5000") -> None:
    for number in range(count):
        assert bench.login("ann", "wrong", f"{peer[:-4]}{5000 + number}") == REFUSED


def test_address_that_guesses_is_slowed_down() -> None:
    """reliability §4: 5 failures a minute per address, then 1 s delay, right password or not, any port."""
    bench = Bench()
    guess(bench, FREE_FAILURES)
    results: list[LoginResult] = []

    bench.authenticator.login("ann", "secret", bench.context("10.0.0.1:7000"), results.append)
    bench.work()
    assert results == []
    assert [delay_s for delay_s, _ in bench.timers] == [BRAKE_DELAY_S]

    bench.ring()
    bench.work()
    assert results == [ANN]
    assert bench.login("ann", "secret", "10.0.0.2:5000") == ANN


def test_brake_is_released_after_a_minute() -> None:
    """The failures must all lie within it."""
    bench = Bench()
    guess(bench, FREE_FAILURES - 1)
    bench.now += 60
    guess(bench, 1)
    assert bench.login("ann", "wrong") == REFUSED
    assert bench.timers == []

    bench.now += 60
    assert bench.login("ann", "secret") == ANN


def test_scram_is_braked_like_passwords() -> None:
    """Each exchange is a guess."""
    bench = Bench()
    guess(bench, FREE_FAILURES)
    talk = Conversation(bench, "SCRAM-SHA-256")

    talk.respond(b"n,,n=ann,r=x")
    assert talk.challenges == []

    bench.ring()
    bench.work()
    assert len(talk.challenges) == 1


def test_attempts_of_a_braked_address_are_few() -> None:
    """Connections side by side make no more guesses a second than this, and take no room from other addresses."""
    bench = Bench()
    guess(bench, FREE_FAILURES)
    results: list[LoginResult] = []
    for _ in range(BRAKED_LIMIT + 3):
        bench.authenticator.login("ann", "wrong", bench.context(), results.append)

    assert results == [BUSY] * 3
    assert bench.login("ann", "secret", "10.0.0.2:1") == ANN
    bench.ring()
    bench.work()
    assert results == [BUSY] * 3 + [REFUSED] * BRAKED_LIMIT


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1:1", "10.0.0.1:2", True),
        ("10.0.0.1:1", "10.0.0.2:1", False),
        ("[2001:db8::1]:1", "[2001:db8::2]:1", True),
        ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", False),
        ("[fe80::1%eth0]:1", "[fe80::2%eth0]:1", True),
        ("[::ffff:10.0.0.1]:1", "10.0.0.1:2", True),
        ("unknown", "unknown", True),
        ("unknown", "10.0.0.1:1", False),
    ],
)
def test_an_address_is_what_one_client_can_have(one: str, other: str, same: bool) -> None:
    """Without its port; of IPv6 the /64."""
    assert (address_of(one) == address_of(other)) is same


def test_known_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A botnet must not fill the memory."""
    monkeypatch.setattr(logins, "ADDRESSES_LIMIT", 3)
    bench = Bench()
    for number in range(5):
        assert bench.login("ann", "wrong", f"10.0.0.{number}:1") == REFUSED

    assert list(bench.logins._addresses) == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
    assert ADDRESSES_LIMIT == 10_000


def test_failed_logins_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """Who, from where, how and why; never the password (reliability §5.2); a client's text only escaped."""
    bench = Bench()
    bench.login("ann", "wrong-pw")
    bench.login("no\nbody" + "x" * 200, "wrong-pw")
    talk = Conversation(bench, "PLAIN")
    talk.respond(b"\0ann\0wrong-pw")
    talk.respond(b"wrong-pw")

    lines = [record.getMessage() for record in caplog.records if "login failed" in record.getMessage()]
    assert lines[0] == "login failed: user='ann' peer=10.0.0.1:5000 mechanism=password reason=wrong password"
    assert lines[1].startswith(r"login failed: user='no\nbodyxxx")
    assert lines[1].endswith("reason=no such user")
    assert len(lines[1]) < 250
    assert lines[2] == "login failed: user='ann' peer=10.0.0.1:5000 mechanism=PLAIN reason=wrong password"
    assert lines[3].endswith("reason=malformed response")
    assert "wrong-pw" not in caplog.text


def test_flood_of_failures_is_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """reliability §5.11: log lines that a stranger can provoke are limited, and say how many they stand for."""
    count_left_out(all_of_them=True)  # of logins in earlier tests whose brakes are still in memory
    bench = Bench()
    caplog.clear()
    caplog.set_level(logging.WARNING, logger="artemis_py.security.logins")
    guess(bench, FREE_FAILURES)
    for _ in range(20):
        bench.authenticator.login("ann", "wrong", bench.context(), lambda result: None)
        bench.ring()
        bench.work()

    count_left_out(all_of_them=True)
    lines = [record.getMessage() for record in caplog.records if "login failed" in record.getMessage()]
    assert [line.partition(":")[0] for line in lines[:LINES_OF_SOURCE]] == ["login failed"] * LINES_OF_SOURCE
    written = sum("login failed:" in line for line in lines)
    assert (
        sum(int(line.split()[0]) for line in lines if "more lines were left out" in line)
        == FREE_FAILURES + 20 - written
    )


def test_open_authenticator_takes_every_name() -> None:
    """`security-enabled=false`: everybody may come in, from everywhere, under any name."""
    bench = Bench()
    authenticator = OpenAuthenticator()
    context = bench.context()
    results: list[LoginResult] = []
    challenges: list[bytes] = []
    talks: list[tuple[str, list[bytes | None]]] = [
        ("PLAIN", [None, b"\0eve\0x"]),
        ("PLAIN", [b"nonsense"]),
        ("ANONYMOUS", [None]),
    ]
    for mechanism, responses in talks:
        exchange = authenticator.begin(mechanism, context)
        assert exchange is not None
        for response in responses:
            exchange.respond(response, challenges.append, results.append)
    authenticator.login("eve", None, context, results.append)

    assert [result.subject for result in results] == [Subject("eve"), Subject(None), Subject(None), Subject("eve")]
    assert challenges == [b""]
    assert authenticator.begin("SCRAM-SHA-256", context) is None
    assert list(authenticator.mechanisms(context)) == ["PLAIN", "ANONYMOUS"]


def test_nonces_are_printable_and_new() -> None:
    """RFC 5802 §5.1: no comma."""
    nonces = {make_nonce() for _ in range(50)}

    assert len(nonces) == 50
    assert all(len(nonce) == 24 and "," not in nonce for nonce in nonces)
