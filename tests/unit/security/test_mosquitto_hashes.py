"""Passwords that mosquitto_passwd has hashed."""

import base64
import hashlib

import pytest

from artemis_py.security.passwords import HashedPassword, check_hash, parse_hash


def stored(password: bytes, iterations: int = 101) -> str:
    digest = hashlib.pbkdf2_hmac("sha512", password, b"salt", iterations)
    return f"$7${iterations}${base64.b64encode(b'salt').decode()}${base64.b64encode(digest).decode()}"


def test_the_right_password_is_accepted() -> None:
    hashed = parse_hash(f"ENC({stored(b'sesame')})")

    assert isinstance(hashed, HashedPassword)
    assert check_hash(hashed.argon2, "sesame")
    assert not check_hash(hashed.argon2, "Sesame")
    assert hashed.scram is None


@pytest.mark.parametrize(
    "text",
    ["$7$101$c2FsdA==", "$7$x$c2FsdA==$eA==", "$7$101$c2FsdA==$eA==", "$7$0$c2FsdA==$eA==", "$7$101$?$?"],
)
def test_a_wrong_text_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="as mosquitto_passwd writes it") as caught:
        parse_hash(f"ENC({text})")
    assert text not in str(caught.value)
    assert not check_hash(text, "x")


def test_iterations_have_an_upper_bound() -> None:
    text = stored(b"x").replace("$101$", "$99999999$")

    with pytest.raises(ValueError, match="as mosquitto_passwd writes it"):
        parse_hash(f"ENC({text})")
