"""SASL mechanisms, server side (amqp10 §3; RFC 4505, 4616, 4422, 5802, 7677)."""

import base64
import hashlib
import hmac

import pytest

from artemis_py.core.runtime.access import Subject
from artemis_py.protocol import LoginOutcome, LoginResult
from artemis_py.security.authenticator import AcceptorAuthenticator
from artemis_py.security.passwords import HashedPassword, derive_scram_keys
from artemis_py.security.sasl import ScramExchange
from artemis_py.security.users import Users
from tests.unit.security.doubles import CHEAP, Bench, Conversation

ANN = LoginResult(LoginOutcome.OK, Subject("ann", frozenset(["app", "ops"])))
REFUSED = LoginResult(LoginOutcome.BAD_CREDENTIALS)


@pytest.mark.parametrize("trace", [None, b"", b"someone@somewhere", b"\xff"])
def test_anonymous_is_let_in_whatever_it_says(trace: bytes | None) -> None:
    """RFC 4505: the trace text is ignored."""
    bench = Bench()
    talk = Conversation(bench, "ANONYMOUS", bench.context(is_loopback=True))

    talk.respond(trace)

    assert talk.results == [LoginResult(LoginOutcome.OK, Subject(None))]
    assert talk.challenges == []


@pytest.mark.parametrize("response", [b"\0ann\0secret", b"ann\0ann\0secret"])
def test_plain_accepts_the_right_password(response: bytes) -> None:
    """RFC 4616; naming oneself as the one to act for is no impersonation."""
    talk = Conversation(Bench(), "PLAIN")

    talk.respond(response)

    assert (talk.challenges, talk.results) == ([], [ANN])


def test_plain_asks_for_a_response_that_was_left_out() -> None:
    """amqp10 §3: a null initial response is answered with an empty challenge, once."""
    talk = Conversation(Bench(), "PLAIN")

    talk.respond(None)
    assert (talk.challenges, talk.results) == ([b""], [])
    talk.respond(b"\0ann\0secret")
    assert talk.results == [ANN]

    talk = Conversation(Bench(), "PLAIN")
    talk.respond(None)
    talk.respond(None)
    assert talk.results == [REFUSED]


@pytest.mark.parametrize(
    "response",
    [
        b"\0ann\0wrong",
        b"\0ann\0",
        b"\0nobody\0secret",
        b"\0CN=device 7,O=Plant\0",
        b"bob\0ann\0secret",
        b"\0\0secret",
        b"",
        b"ann\0secret",
        b"\0ann\0secret\0",
        b"\0ann\0\xff",
    ],
)
def test_plain_gives_every_failure_the_same_answer(response: bytes) -> None:
    """reliability §5.1: wrong password, unknown user, impersonation and nonsense look alike."""
    talk = Conversation(Bench(), "PLAIN")

    talk.respond(response)

    assert (talk.challenges, talk.results) == ([], [REFUSED])


def test_external_takes_the_name_of_the_certificate() -> None:
    """RFC 4422 appendix A: the whole subject name is the user, the response is empty or repeats it."""
    bench = Bench()
    name = "CN=device 7,O=Plant"
    expected = [LoginResult(LoginOutcome.OK, Subject(name, frozenset(["devices"])))]
    context = bench.context(is_encrypted=True, certificate_subject=name)

    ways: list[list[bytes | None]] = [[b""], [None, b""], [name.encode()]]
    for responses in ways:
        talk = Conversation(bench, "EXTERNAL", context)
        for response in responses:
            talk.respond(response)
        assert talk.results == expected

    talk = Conversation(bench, "EXTERNAL", context)
    talk.respond(b"ann")
    assert talk.results == [REFUSED]


RFC_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
RFC_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_bench() -> Bench:
    """User `user`, password `pencil`, and the salt and nonce of RFC 7677 §3."""
    bench = Bench()
    keys = derive_scram_keys("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    bench.logins.replace_users(Users({"user": HashedPassword("", keys)}, {}, CHEAP))
    bench.authenticator = AcceptorAuthenticator(
        bench.logins, ["SCRAM-SHA-256"], nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    return bench


def test_scram_speaks_the_exchange_of_the_rfc() -> None:
    """RFC 7677 §3, byte for byte; the server's signature goes out with the outcome."""
    talk = Conversation(rfc_bench(), "SCRAM-SHA-256")

    talk.respond(None)
    talk.respond(RFC_FIRST)
    talk.respond(RFC_FINAL)

    assert talk.challenges == [b"", RFC_SERVER_FIRST]
    assert talk.results == [LoginResult(LoginOutcome.OK, Subject("user"), RFC_SERVER_FINAL)]


@pytest.mark.parametrize(
    "final",
    [
        RFC_FINAL.replace(b"p=dHzb", b"p=eHzb"),
        RFC_FINAL.replace(b"k0,p=", b"k1,p="),
        RFC_FINAL.replace(b"c=biws", b"c=eSws"),
        RFC_FINAL.replace(b",p=", b",m=x,p="),
        RFC_FINAL.replace(b",p=", b",x=1,p="),
        RFC_FINAL[:-4],
        RFC_FINAL.partition(b",p=")[0],
        b"",
        b"\xff,p=",
        RFC_FIRST,
    ],
)
def test_scram_refuses_every_other_final_message(final: bytes) -> None:
    """RFC 5802 §5: nonce, channel binding and proof must fit, and what was signed must be what was sent."""
    talk = Conversation(rfc_bench(), "SCRAM-SHA-256")
    talk.respond(RFC_FIRST)
    talk.respond(final)
    talk.respond(RFC_FINAL)

    assert talk.results == [REFUSED, REFUSED]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"p=tls-unique,,n=user,r=abc",
        b"x,,n=user,r=abc",
        b"n,b=x,n=user,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,a==,n=user,r=abc",
        b"n,,m=1,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=",
    ],
)
def test_scram_refuses_a_malformed_first_message(first: bytes) -> None:
    """RFC 5802 §5.1 and §7: channel binding, mandatory extensions, other users and bad names end the exchange."""
    talk = Conversation(rfc_bench(), "SCRAM-SHA-256")

    talk.respond(first)

    assert (talk.challenges, talk.results) == ([], [REFUSED])


def final_message(first_bare: str, server_first: bytes, password: str, gs2: bytes = b"n,,") -> bytes:
    """What an honest client answers (RFC 5802 §3), computed here independently of the server's code."""
    fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c={base64.b64encode(gs2).decode()},r={fields['r']}"
    message = f"{first_bare},{server_first.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize(
    ("user", "password", "outcome"),
    [
        ("ann", "secret", LoginOutcome.OK),
        ("bob", "plain", LoginOutcome.OK),
        ("ann", "wrong", LoginOutcome.BAD_CREDENTIALS),
        ("bob", "wrong", LoginOutcome.BAD_CREDENTIALS),
        ("old", "older", LoginOutcome.BAD_CREDENTIALS),
        ("nobody", "", LoginOutcome.BAD_CREDENTIALS),
    ],
)
def test_scram_with_stored_plain_and_missing_keys(user: str, password: str, outcome: LoginOutcome) -> None:
    """reliability §5.1: an unknown user gets as far as a known one and fails at the same point, even with the empty
    password that the made-up keys are derived from."""
    bench = Bench()
    talk = Conversation(bench, "SCRAM-SHA-256")
    bare = f"n={user},r=clientnonce"

    talk.respond(f"n,,{bare}".encode())
    assert talk.challenges[0].startswith(b"r=clientnonceservernonce,s=")
    talk.respond(final_message(bare, talk.challenges[0], password))

    assert [result.outcome for result in talk.results] == [outcome]
    assert (talk.results[0].data != b"") is (outcome is LoginOutcome.OK)
    assert bench.hashed == 1


def test_scram_proof_for_another_nonce_is_worth_nothing() -> None:
    """RFC 5802 §5.1: otherwise a recorded exchange could be played again; the proof itself is right here."""
    talk = Conversation(Bench(), "SCRAM-SHA-256")
    talk.respond(b"n,,n=ann,r=clientnonce")
    fields = dict(field.split("=", 1) for field in talk.challenges[0].decode().split(","))
    keys = derive_scram_keys("secret", base64.b64decode(fields["s"]), int(fields["i"]))
    without_proof = "c=biws,r=clientnonceothernonce"
    message = f"n=ann,r=clientnonce,{talk.challenges[0].decode()},{without_proof}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", keys.salt, keys.iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(keys.stored_key, message, "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))

    talk.respond(f"{without_proof},p={base64.b64encode(proof).decode()}".encode())

    assert talk.results == [REFUSED]


def test_scram_decodes_names_and_allows_oneself_as_authorization() -> None:
    """RFC 5802 §5.1: `=2C` and `=3D`; gs2 flag `y` is an honest client that saw no channel binding here."""
    bench = Bench()
    bench.logins.replace_users(Users({"a,=2C": "pw"}, {}, CHEAP))
    talk = Conversation(bench, "SCRAM-SHA-256")

    talk.respond(b"y,a=a=2C=3D2C,n=a=2C=3D2C,r=x,e=1")
    talk.respond(final_message("n=a=2C=3D2C,r=x,e=1", talk.challenges[0], "pw", b"y,a=a=2C=3D2C,"))

    assert talk.results[0].subject == Subject("a,=2C")


def test_scram_takes_nothing_while_it_waits_for_the_keys() -> None:
    """An answer to a challenge that was not sent yet ends the exchange; the keys that come then are dropped."""
    bench = Bench()
    challenges: list[bytes] = []
    results: list[LoginResult] = []
    exchange = ScramExchange(bench.logins, "10.0.0.1:1", lambda: "n")

    exchange.respond(b"n,,n=ann,r=x", challenges.append, results.append)
    exchange.respond(b"c=biws,r=x,p=", challenges.append, results.append)
    bench.work()

    assert (challenges, results) == ([], [REFUSED])


def test_passwords_are_normalized_before_scram_keys_are_derived() -> None:
    """RFC 5802 §2.2: the same password in another Unicode form is the same password."""
    assert derive_scram_keys("I\u00adX".replace("\u00ad", ""), b"s", 4096) == derive_scram_keys("\u2168", b"s", 4096)
    assert derive_scram_keys("e\u0301", b"s", 4096) == derive_scram_keys("\u00e9", b"s", 4096)
