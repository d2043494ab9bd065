"""Tokens: what opens, what does not, and when they end; time is what the test says."""

from collections.abc import Callable

import pytest

from artemis_py.errors import InvalidRequest, LimitExceeded
from artemis_py.protocol import LoginOutcome
from artemis_py.security.token_logins import TokenLogin, TokenLogins
from artemis_py.security.tokens import (
    DAY_MS,
    KEPT_DAYS,
    MOST_DAYS,
    MOST_OF_OWNER,
    SPACE,
    USE_SAVED_MS,
    Scope,
    Token,
    Tokens,
    WrongToken,
    without_secrets,
)
from artemis_py.security.users import Users
from tests.unit.security.doubles import Bench

ANN = Users({"ann": "a"}, {"ann": frozenset({"r"})})
NOBODY = Users({}, {})


class Desk:
    """Tokens, a store that outlives them, and a clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000_000
        self.store = Records()
        self.tokens = self.restart(None)

    def restart(self, users: Users | None) -> Tokens:
        """Return what another run of the broker finds."""
        self.tokens = Tokens(self.store, lambda: self.now_ms)
        self.tokens.restore(users)
        return self.tokens

    def make(self, name: str = "t", scope: Scope = Scope.ALL, days: int = 1) -> tuple[Token, str]:
        return self.tokens.create("ann", name, scope, days)


class Records:
    """Records that outlive the broker, and how often they were written."""

    is_durable = True

    def __init__(self) -> None:
        self.writes = 0
        self._records: dict[tuple[str, bytes], bytes] = {}

    def save_record(self, space: str, key: bytes, value: bytes | None) -> None:
        self.writes += 1
        self._records.pop((space, key), None)
        if value is not None:
            self._records[space, key] = value

    def load_records(self, space: str) -> list[tuple[bytes, bytes]]:
        return [(key, value) for (own, key), value in self._records.items() if own == space]

    def when_durable(self, callback: Callable[[], None], failed: Callable[[str], None] | None = None) -> None:
        callback()


def reason(found: Token | WrongToken) -> str:
    assert isinstance(found, WrongToken)
    return found.reason


def test_a_token_opens_until_its_day() -> None:
    desk = Desk()
    token, text = desk.make(days=2)

    assert desk.tokens.check(text) == token
    desk.now_ms += 2 * DAY_MS - 1
    assert desk.tokens.check(text) == token
    desk.now_ms += 1
    assert reason(desk.tokens.check(text)) == f"token {token.id} has ended"


def test_every_character_of_a_token_counts() -> None:
    """One that is only right at its beginning, or at its end, opens nothing."""
    desk = Desk()
    token, text = desk.make()
    for index in range(len(text)):
        other = "A" if text[index] != "A" else "B"
        assert isinstance(desk.tokens.check(text[:index] + other + text[index + 1 :]), WrongToken), index
        assert isinstance(desk.tokens.check(text[:index]), WrongToken), index
    assert isinstance(desk.tokens.check(text + "A"), WrongToken)
    assert desk.tokens.check(text) == token


def test_the_store_has_no_secret() -> None:
    desk = Desk()
    _, text = desk.make()
    secret = text.rpartition(text[:17])[2]
    ((_, record),) = desk.store.load_records(SPACE)

    assert len(secret) == 43
    assert secret.encode() not in record


def test_tokens_survive_a_restart_and_those_of_removed_users_do_not() -> None:
    desk = Desk()
    _, text = desk.make()

    assert isinstance(desk.restart(ANN).check(text), Token)
    assert isinstance(desk.restart(NOBODY).check(text), WrongToken)
    # For good: somebody else may get the name.
    assert isinstance(desk.restart(ANN).check(text), WrongToken)


def test_a_new_password_keeps_tokens_and_a_removed_owner_ends_them() -> None:
    desk = Desk()
    _, text = desk.make()
    desk.tokens.users_changed(ANN, Users({"ann": "new"}, {}))

    assert isinstance(desk.tokens.check(text), Token)
    desk.tokens.users_changed(ANN, NOBODY)
    assert reason(desk.tokens.check(text)) == "no such token"
    assert desk.store.load_records(SPACE) == []


def test_a_revoked_token_opens_nothing() -> None:
    desk = Desk()
    token, text = desk.make()

    assert (desk.tokens.revoke(token.id), desk.tokens.revoke(token.id)) == (True, False)
    assert isinstance(desk.tokens.check(text), WrongToken)
    assert isinstance(desk.restart(None).check(text), WrongToken)


@pytest.mark.parametrize("days", [0, -1, MOST_DAYS + 1])
def test_a_token_ends_some_day(days: int) -> None:
    with pytest.raises(InvalidRequest, match=f"1 to {MOST_DAYS} days"):
        Desk().make(days=days)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\u202e", "x" * 101])
def test_a_token_has_a_name_that_can_be_read(name: str) -> None:
    with pytest.raises(InvalidRequest, match="needs a name"):
        Desk().make(name)


def test_limits() -> None:
    desk = Desk()
    desk.make("twice")
    with pytest.raises(InvalidRequest, match="has a token named 'twice'"):
        desk.make("twice")
    for number in range(MOST_OF_OWNER - 1):
        desk.make(str(number))
    with pytest.raises(LimitExceeded, match=f"{MOST_OF_OWNER} tokens"):
        desk.make("one more")
    # What has ended for long makes room.
    desk.now_ms += (KEPT_DAYS + 1) * DAY_MS + 1
    desk.make("one more")
    assert len(list(desk.tokens)) == 1


def test_use_is_stored_once_an_hour() -> None:
    desk = Desk()
    token, _ = desk.make()
    for _ in range(5):
        desk.now_ms += 1000
        desk.tokens.note_use(token)
    written = desk.store.writes
    used_ms = next(iter(desk.tokens)).used_ms
    desk.now_ms += USE_SAVED_MS
    desk.tokens.note_use(token)

    assert (written, used_ms) == (2, 1_000_005_000)
    assert desk.store.writes == 3
    assert next(iter(desk.restart(None))).used_ms == desk.now_ms


def test_a_damaged_record_opens_nothing_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    _, text = desk.make()
    desk.store.save_record(SPACE, b"damaged", b"{}")

    assert isinstance(desk.restart(None).check(text), Token)
    assert "token is damaged and does not open anything: id=damaged" in caplog.text


def test_texts_lose_the_secrets_of_tokens() -> None:
    _, text = Desk().make()

    assert without_secrets(f'["{text}"]') == f'["{text[:16]}_…"]'
    assert without_secrets("apy_x") == "apy_x"


def login(logins: TokenLogins, text: str) -> list[TokenLogin]:
    found: list[TokenLogin] = []
    logins.login(text, "10.0.0.1:5000", found.append)
    return found


def nothing() -> None:
    """There is no turn."""


def test_wrong_tokens_are_failed_logins_and_slow_down_their_address(caplog: pytest.LogCaptureFixture) -> None:
    """A right one is let in at once all the same: nobody guesses 256 bits."""
    desk, bench = Desk(), Bench()
    _, text = desk.make()
    logins = TokenLogins(desk.tokens, bench.logins, nothing, nothing)
    wrong = f"{text[:-1]}{'A' if text[-1] != 'A' else 'B'}"
    for _ in range(5):
        assert [each.result.outcome for each in login(logins, wrong)] == [LoginOutcome.BAD_CREDENTIALS]

    assert login(logins, wrong) == []
    assert [each.result.outcome for each in login(logins, text)] == [LoginOutcome.OK]
    assert (bench.logins.failed, bench.logins.succeeded) == (5, 1)
    bench.ring()
    assert bench.logins.failed == 6
    assert (
        f"login failed: user='ann' peer=10.0.0.1:5000 mechanism=bearer reason=wrong secret of token {text[4:16]}"
        in (caplog.text)
    )
    assert wrong[17:] not in caplog.text


def test_a_token_has_the_roles_that_its_owner_has_now() -> None:
    desk, bench = Desk(), Bench()
    _, text = desk.make()
    logins = TokenLogins(desk.tokens, bench.logins, nothing, nothing)
    bench.logins.replace_users(Users({"ann": "new"}, {"ann": frozenset({"new"})}))
    (found,) = login(logins, text)

    assert found.result.subject is not None
    assert (found.result.subject.user, found.result.subject.roles) == ("ann", frozenset({"new"}))
    bench.logins.replace_users(NOBODY)
    (found,) = login(logins, text)
    assert (found.result.outcome, found.token) == (LoginOutcome.BAD_CREDENTIALS, None)


def test_without_security_a_wrong_token_is_wrong_all_the_same() -> None:
    desk = Desk()
    _, text = desk.make()
    logins = TokenLogins(desk.tokens, None, nothing, nothing)

    assert [each.result.outcome for each in login(logins, text)] == [LoginOutcome.OK]
    assert [each.result.outcome for each in login(logins, "x")] == [LoginOutcome.BAD_CREDENTIALS]
