"""The login.config of an Artemis instance, which says who may log in if `broker.xml` has no `<login>`."""

from pathlib import Path

from artemis_py.config import AnonymousAccess, LoginConfig
from tests.unit.config.samples import mistakes, read

REQUIRED = """/*
 * A licence; with words { such = "these" };
 */
activemq {
   // With a comment
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
       debug=false
       reload=true
       org.apache.activemq.jaas.properties.user="people.properties"
       org.apache.activemq.jaas.properties.role="jobs.properties";
};
"""
GUEST = """other { com.example.Other required; };
activemq {
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule sufficient
       baseDir="people"
       org.apache.activemq.jaas.properties.user="artemis-users.properties";

   org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule sufficient
       org.apache.activemq.jaas.guest.user="admin"
       org.apache.activemq.jaas.guest.role="amq";
};
"""


def login(folder: Path, text: str, after: str = "", **variables: str) -> LoginConfig:
    """Who may log in, with a login.config of this text."""
    (folder / "login.config").write_text(text, encoding="utf-8")
    return read(after=after, folder=folder, **variables).login


def test_an_instance_that_requires_a_login_has_no_anonymous_clients(tmp_path: Path) -> None:
    """What `create --require-login` of Artemis writes; without the file, clients of this machine need no name."""
    assert read(folder=tmp_path).login.anonymous_access is AnonymousAccess.LOOPBACK

    found = login(tmp_path, REQUIRED)

    assert found.anonymous_access is AnonymousAccess.NOWHERE
    assert (found.users_file, found.roles_file) == ("people.properties", "jobs.properties")


def test_an_instance_with_guests_has_their_role(tmp_path: Path) -> None:
    """What `create --allow-anonymous` of Artemis writes; other entries do not matter."""
    found = login(tmp_path, GUEST)

    assert found.anonymous_access is AnonymousAccess.EVERYWHERE
    assert found.anonymous_roles == ("amq",)
    assert (found.users_file, found.roles_file) == ("people/artemis-users.properties", "artemis-roles.properties")


def test_login_in_broker_xml_replaces_the_file(tmp_path: Path) -> None:
    """And a variable replaces a part of it."""
    element = '<login xmlns="urn:artemis-py"><users-file>u</users-file></login>'

    assert login(tmp_path, GUEST, element) == LoginConfig(users_file="u", folder=tmp_path)
    found = login(tmp_path, REQUIRED, ARTEMIS_PY_LOGIN_USERS_FILE="v")
    assert (found.users_file, found.roles_file) == ("v", "jobs.properties")


def test_a_module_that_is_missing_is_an_error_if_a_login_needs_it(tmp_path: Path) -> None:
    """Otherwise a password of the file would be enough where LDAP was asked."""
    login(tmp_path, REQUIRED)
    (tmp_path / "login.config").write_text(REQUIRED.replace("};\n", "x.y.LDAPLoginModule requisite a=b;\n};\n"))

    assert mistakes(folder=tmp_path) == [
        (
            f"{tmp_path}/login.config:12: login.config: LDAPLoginModule is not supported by artemis_py: logins would "
            "not need what it asks for; write <login> into broker.xml instead (docs/configuration.md)"
        )
    ]


def test_a_module_that_is_missing_is_left_out_if_a_login_works_without_it(tmp_path: Path) -> None:
    """Its users cannot log in, which harms nobody."""
    (tmp_path / "login.config").write_text(GUEST.replace("GuestLoginModule", "LDAPLoginModule"), encoding="utf-8")
    config = read(folder=tmp_path)

    assert config.login.anonymous_access is AnonymousAccess.NOWHERE
    assert "7: login.config: LDAPLoginModule is left out: its users cannot log in" in str(config.warnings[0])


def test_a_file_that_says_nothing_is_not_used(tmp_path: Path) -> None:
    """With a warning, unless there is one entry, whatever its name."""
    assert login(tmp_path, REQUIRED.replace("activemq {", "mine {")).users_file == "people.properties"
    for text in ("", "{", "activemq {", "a { };\nb { };", "activemq { ", "\0 = ; }"):
        (tmp_path / "login.config").write_text(text, encoding="utf-8")
        read(folder=tmp_path)
    (tmp_path / "login.config").write_text("a { x.Y required; };\nb { x.Y required; };", encoding="utf-8")
    config = read(folder=tmp_path)

    assert config.login == LoginConfig(folder=tmp_path)
    assert "is not read: it has no entry activemq" in str(config.warnings[0])
