"""Users and roles files, stored passwords (docs/security.md)."""

import logging
import os
from pathlib import Path

import pytest

from artemis_py.core.runtime.access import Subject
from artemis_py.errors import ConfigError
from artemis_py.security import passwords, users
from artemis_py.security.passwords import (
    DEFAULT_COST,
    HashedPassword,
    derive_scram_keys,
    hash_of_nobody,
    hash_password,
    parse_hash,
)
from artemis_py.security.properties import Entry, parse_properties, read_properties, split_list, unescape
from artemis_py.security.users import UserFiles, Users
from tests.unit.security.doubles import CHEAP
from tests.unit.security.doubles import users as sample_users


def test_properties_are_names_and_values_with_their_lines() -> None:
    """Comments, blank lines and space do not matter; only the first `=` counts; escapes keep characters."""
    text = "# comment\n! too\n\n  ann = a=b \r\nbob=\\ x\\ny\nc\\=d = \\u00e9\n"

    assert parse_properties(text, "f") == [
        Entry("ann", "a=b", 4),
        Entry("bob", "\\ x\\ny", 5),
        Entry("c=d", "\\u00e9", 6),
    ]
    assert [unescape(value) for value in ["a=b", "\\ x\\\\y", "\\u00e9"]] == ["a=b", " x\\y", "é"]


def test_every_mistake_of_a_properties_file_is_named_with_its_line() -> None:
    """Configuration errors come all at once, as file:line: element: message."""
    with pytest.raises(ConfigError) as caught:
        parse_properties("ann\n = x\na = 1\na = 2\nb = \\\nc = \\u12\nd = \\uzzzz", "users.properties")

    assert [str(problem) for problem in caught.value.problems] == [
        "users.properties:1: line: expected `name = value`",
        "users.properties:2: line: there is no name before the `=`",
        "users.properties:4: a: is already in line 3; write each name only once",
        "users.properties:5: line: ends with a backslash; write \\\\ for a backslash",
        "users.properties:6: line: \\u must be followed by four hexadecimal digits",
        "users.properties:7: line: \\u must be followed by four hexadecimal digits",
    ]


def test_files_that_cannot_be_read_are_configuration_errors(tmp_path: Path) -> None:
    """Missing, or not UTF-8."""
    (tmp_path / "latin").write_bytes(b"a = b\nc = \xe9\n")

    with pytest.raises(ConfigError, match="none:1: file: cannot be read: No such file"):
        read_properties(tmp_path / "none")
    with pytest.raises(ConfigError, match="latin:2: file: is not written in UTF-8"):
        read_properties(tmp_path / "latin")


def test_lists_are_split_at_commas_without_a_backslash() -> None:
    """Distinguished names hold commas."""
    assert split_list(r" ann, CN=device 7\,O=Plant ,,bob") == ["ann", "CN=device 7,O=Plant", "bob"]
    assert split_list("") == []


def test_hashed_password_is_found_again_and_differs_each_time() -> None:
    """A salt of its own for each hash; both halves are of the same password."""
    one, other = hash_password("sécret", CHEAP), hash_password("sécret", CHEAP)
    parsed = parse_hash(one)

    assert one != other
    assert isinstance(parsed, HashedPassword)
    assert one.startswith("ENC($argon2id$v=19$m=8,t=1,p=1$")
    assert passwords.check_hash(parsed.argon2, "sécret")
    assert not passwords.check_hash(parsed.argon2, "secret")
    assert parsed.scram is not None
    assert derive_scram_keys("sécret", parsed.scram.salt, parsed.scram.iterations) == parsed.scram


def test_default_cost_is_the_recommended_one() -> None:
    """OWASP: argon2id with 7 MiB, 5 passes, 1 lane."""
    assert hash_of_nobody(DEFAULT_COST).startswith("$argon2id$v=19$m=7168,t=5,p=1$")
    assert DEFAULT_COST.scram_iterations >= 4096


ARGON2 = hash_of_nobody(CHEAP)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ENC(1024:ABCD)", "expected ENC\\(\\$argon2id"),
        ("ENC(1024:4096$:ABCD)", "artemis mask --hash"),
        ("ENC(1024::)", "artemis mask --hash"),
        (f"ENC(-1:ABCD:{'AB' * 16})", "artemis mask --hash"),
        (f"ENC(0:ABCD:{'AB' * 16})", "iterations must be 1 to"),
        (f"ENC({'9' * 5000}:ABCD:{'AB' * 16})", "iterations must be 1 to"),
        (f"ENC(1024:ABCD:{'AB' * 15})", "must have 16 to 128 bytes"),
        (f"ENC(1024:ABCD:{'AB' * 129})", "must have 16 to 128 bytes"),
        ("ENC()", "expected ENC\\(\\$argon2id"),
        (f"ENC({ARGON2.replace('argon2id', 'argon2i')})", "only the argon2id kind"),
        (f"ENC({ARGON2}|)", "after the \\|"),
        (f"ENC({ARGON2}|SCRAM-SHA-1$4096$AA==$AA==$AA==)", "after the \\|"),
        (f"ENC({ARGON2}|SCRAM-SHA-256$4096$!$AA==$AA==)", "after the \\|"),
        (f"ENC({ARGON2}|SCRAM-SHA-256$4096$AA==$AA==$AA==)", "after the \\|"),
        (f"ENC({ARGON2}|SCRAM-SHA-256$x$AA==$AA==$AA==)", "after the \\|"),
        (f"ENC({ARGON2}|SCRAM-SHA-256$4095$AA==$AA==$AA==)", "must be 4096 to"),
        (f"ENC({ARGON2}|SCRAM-SHA-256${'9' * 5000}$AA==$AA==$AA==)", "must be 4096 to"),
    ],
)
def test_damaged_hash_is_refused_without_repeating_it(text: str, message: str) -> None:
    """reliability §5.2: what is in the users file never reaches the log."""
    with pytest.raises(ValueError, match=message) as caught:
        parse_hash(text)

    assert "4096$" not in str(caught.value)


def test_hash_of_nobody_is_checked_like_any_other() -> None:
    """It must not fail early, or an unknown user would answer faster."""
    assert parse_hash(f"ENC({ARGON2})") == HashedPassword(ARGON2, None)
    assert not passwords.check_hash(ARGON2, "")
    assert not passwords.check_hash("nonsense", "")


# What `artemis mask --hash` of Apache Artemis 2.44.0 printed for the two passwords.
OF_ARTEMIS = {
    "secret": (
        "ENC(1024:0751246F6109145C419494BB106AFEF55E91FA437E6247CA7496A5167F08EABC:85BDED8B66B886F42ED2FD08A03A403A"
        "0F9A27EA5713E1271F92903CEDB722D48E21C499D09594225AA3AC1860A11F4FA2E199DC5EF1865489A86AF91CA22D60)"
    ),
    "pässword€": (
        "ENC(1024:6B0615D0F85738A7CA29013B276A1937193F49227788EEDBFD9683ADBF0753D2:3C49FAB01DF17181457EF13B87405F6D"
        "DB53A220D16342BB7CA94FFFCF31D31F38919C35D16C3D6C0FE66C567B1747BDE05C21B768E426B174C8F09DEB9E96F5)"
    ),
}


def test_passwords_that_artemis_has_hashed_are_verified() -> None:
    """artemis-model §6.3; at the cost of any other, and with made-up keys for SCRAM."""
    found = Users({password: parse_hash(text) for password, text in OF_ARTEMIS.items()}, {}, CHEAP)

    assert all(found.verify(password, password) for password in OF_ARTEMIS)
    assert not found.verify("secret", "Secret")
    assert not found.verify("secret", "")
    assert not found.verify("secret", "\udc80")
    assert found.scram_keys("secret")[1] is False


def test_password_decides() -> None:
    """Hashed and plain ones."""
    found = sample_users()

    assert found.verify("ann", "secret")
    assert not found.verify("ann", "Secret")
    assert found.verify("bob", "plain")
    assert not found.verify("bob", "plain ")
    assert not found.verify("nobody", "")
    assert not found.verify("ann", "\udc80")
    assert not found.verify("CN=device 7,O=Plant", "")
    assert found.subject("ann") == Subject("ann", frozenset(["app", "ops"]))
    assert found.subject("bob") == Subject("bob")


def test_unknown_user_costs_the_same_as_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """reliability §5.1: one hash with the same parameters and one constant-time comparison at most, whoever asks."""
    found = Users({"ann": parse_hash(f"ENC({ARGON2})"), "bob": "x", "cat": parse_hash(OF_ARTEMIS["secret"])}, {}, CHEAP)
    checked: list[str] = []

    def check(argon2: str, password: str) -> bool:
        checked.append(argon2.rpartition("$")[0].rpartition("$")[0])
        return False

    monkeypatch.setattr(users, "check_hash", check)
    for user in ["ann", "bob", "cat", "nobody"]:
        assert not found.verify(user, "wrong")

    assert checked == ["$argon2id$v=19$m=8,t=1,p=1"] * 4


def test_scram_keys_of_unknown_users_look_like_those_of_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """reliability §5.1, RFC 5802 §9: one derivation in every case; the made-up salt is stable and of the usual
    length.
    """
    derived: list[int] = []

    def derive(password: str, salt: bytes, iterations: int) -> passwords.ScramKeys:
        derived.append(iterations)
        return derive_scram_keys(password, salt, iterations)

    monkeypatch.setattr(users, "derive_scram_keys", derive)
    found = sample_users()
    keys = {user: found.scram_keys(user) for user in ["ann", "bob", "old", "nobody", "nobody2"]}

    assert derived == [4096] * 5
    assert {user: genuine for user, (_, genuine) in keys.items()} == {
        "ann": True,
        "bob": True,
        "old": False,
        "nobody": False,
        "nobody2": False,
    }
    assert {len(each.salt) for each, _ in keys.values()} == {16}
    assert {each.iterations for each, _ in keys.values()} == {4096}
    assert len({each.salt for each, _ in keys.values()}) == 5
    assert sample_users().scram_keys("nobody") == found.scram_keys("nobody")


class Folder:
    """An instance's two files."""

    def __init__(self, path: Path) -> None:
        self.users = path / "artemis-users.properties"
        self.roles = path / "artemis-roles.properties"
        self.files = UserFiles(self.users, self.roles, CHEAP)
        self.stamp = 1

    def write(self, users: str, roles: str) -> None:
        self.users.write_text(users, "utf-8")
        self.roles.write_text(roles, "utf-8")
        self.stamp += 1
        for path in (self.users, self.roles):
            os.utime(path, ns=(self.stamp, self.stamp))


def test_users_and_roles_are_read_from_their_files(tmp_path: Path) -> None:
    """artemis-model §6.3, properties login module: `name = password`, `role = user, user`."""
    folder = Folder(tmp_path)
    folder.write(f"ann = {hash_password('secret', CHEAP)}\n", "app = ann, other\nops = ann\n")

    loaded = folder.files.load()

    assert loaded.verify("ann", "secret")
    assert loaded.subject("ann").roles == {"app", "ops"}
    assert loaded.subject("other").roles == {"app"}
    assert not loaded.knows("other")


def test_plain_passwords_work_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Issue: a plain one is accepted with a warning. The warning names no user and no password (reliability §5.2)."""
    folder = Folder(tmp_path)
    folder.write("ann = s3cret\\ \nbob = pa\\\\ss\n", "")

    with caplog.at_level(logging.INFO):
        loaded = folder.files.load()

    assert loaded.verify("ann", "s3cret ")
    assert loaded.verify("bob", "pa\\ss")
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.WARNING
    assert "passwords that are not hashed: 2" in caplog.text
    assert "s3cret" not in caplog.text


def test_passwords_that_are_cheap_to_guess_cause_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """1024 rounds of SHA-1 are not what they were."""
    folder = Folder(tmp_path)
    folder.write("".join(f"user{index} = {text}\n" for index, text in enumerate(OF_ARTEMIS.values())), "")

    with caplog.at_level(logging.INFO):
        folder.files.load()

    (record,) = caplog.records
    assert "passwords that are hashed as Artemis does it" in record.getMessage()


def test_mistakes_of_both_files_come_together(tmp_path: Path) -> None:
    """And never show a password (reliability §5.2)."""
    folder = Folder(tmp_path)
    folder.write("ann = ENC(s3cret)\nbob =\n", "app\n")

    with pytest.raises(ConfigError) as caught:
        folder.files.load()

    found = [(problem.line, problem.element) for problem in caught.value.problems]
    assert found == [(1, "ann"), (2, "bob"), (1, "line")]
    assert "s3cret" not in str(caught.value)


def test_changed_files_are_read_again_when_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """artemis-model §6.3 `reload`. Unusable files leave everything as it was and are logged once."""
    folder = Folder(tmp_path)
    folder.write("ann = one", "")
    folder.files.load()
    assert folder.files.reload() is None

    folder.write("ann = two", "")
    changed = folder.files.reload()
    assert isinstance(changed, Users)
    assert changed.verify("ann", "two")
    assert folder.files.reload() is None

    caplog.clear()
    folder.write("ann", "")
    folder.users.unlink()
    assert folder.files.reload() is None
    assert folder.files.reload() is None
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
