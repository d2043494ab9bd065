"""Changes to the files of users and roles."""

from pathlib import Path

import pytest

from artemis_py.errors import ConfigError, InvalidRequest
from artemis_py.security.user_editor import UserEditor
from artemis_py.security.users import UserFiles

USERS = "# people\nolga = secret\n\npaul\\ b = other\n"
ROLES = "# who may what\nops = olga\napp = paul\\ b, olga, device\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "users").write_text(USERS, encoding="utf-8")
    (tmp_path / "users").chmod(0o600)
    (tmp_path / "roles").write_text(ROLES, encoding="utf-8")
    return tmp_path


def editor(folder: Path) -> UserEditor:
    return UserEditor(folder / "users", folder / "roles")


def test_users_are_listed_with_their_roles(folder: Path) -> None:
    assert editor(folder).users() == {"device": ["app"], "olga": ["app", "ops"], "paul b": ["app"]}
    assert [editor(folder).has_password(name) for name in ("olga", "device")] == [True, False]


def test_a_user_is_added_and_all_else_stays(folder: Path) -> None:
    editor(folder).add("new one=", "hash", ["app", "more"])

    assert (folder / "users").read_text("utf-8") == f"{USERS}new\\ one\\= = hash\n"
    assert (folder / "roles").read_text("utf-8") == (
        "# who may what\nops = olga\napp = paul\\ b, olga, device, new\\ one\\=\nmore = new\\ one\\=\n"
    )
    users = UserFiles(folder / "users", folder / "roles").load()
    assert users.verify("new one=", "hash")
    assert users.subject("new one=").roles == {"app", "more"}


def test_a_user_is_removed_from_both_files(folder: Path) -> None:
    editor(folder).remove("olga")

    assert (folder / "users").read_text("utf-8") == "# people\n\npaul\\ b = other\n"
    assert editor(folder).users() == {"device": ["app"], "paul b": ["app"]}


def test_a_password_is_replaced_in_its_line(folder: Path) -> None:
    editor(folder).set_password("olga", "better")

    assert (folder / "users").read_text("utf-8") == USERS.replace("secret", "better")
    assert (folder / "roles").read_text("utf-8") == ROLES


def test_a_file_keeps_its_permissions_and_nothing_is_left_beside_it(folder: Path) -> None:
    editor(folder).add("x", "hash", ["app"])

    assert (folder / "users").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == [".users.lock", "roles", "users"]


def test_a_file_without_a_last_line_end_is_extended(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("a = b", encoding="utf-8")
    (tmp_path / "roles").write_text("", encoding="utf-8")
    editor(tmp_path).add("x", "hash", ["r"])

    assert editor(tmp_path).users() == {"a": [], "x": ["r"]}


def test_mistakes_change_nothing(folder: Path) -> None:
    for user in ("olga", "a\nb"):
        with pytest.raises(InvalidRequest):
            editor(folder).add(user, "hash", ["app"])
    with pytest.raises(InvalidRequest):
        editor(folder).set_password("device", "hash")
    with pytest.raises(InvalidRequest):
        editor(folder).remove("nobody")

    assert ((folder / "users").read_text("utf-8"), (folder / "roles").read_text("utf-8")) == (USERS, ROLES)


def test_a_file_with_mistakes_is_not_touched(folder: Path) -> None:
    (folder / "roles").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="roles:1"):
        editor(folder).add("x", "hash", ["app"])

    assert (folder / "users").read_text("utf-8") == USERS
