"""mosquitto.conf: what each option becomes, by the file that this broker would start with."""

import base64
import hashlib
import subprocess
from pathlib import Path

import pytest

from artemis_py.core.runtime.access import Permission
from artemis_py.security.authenticator import AnonymousAccess
from tests.migration import Migrated, migrate


def mosquitto_hash(password: str, iterations: int = 101) -> str:
    """What mosquitto_passwd writes."""
    salt = b"twelve bytes"
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, iterations)
    return f"$7${iterations}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def migrate_lines(folder: Path, *lines: str) -> Migrated:
    file = folder / "mosquitto.conf"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return migrate(file, folder / "new")


def test_an_empty_file_is_a_broker_for_this_machine(tmp_path: Path) -> None:
    result = migrate_lines(tmp_path, "# nothing")
    (acceptor,) = result.config.acceptors

    assert (acceptor.host, acceptor.port, acceptor.protocols) == ("127.0.0.1", 1883, ("MQTT",))
    assert result.config.login.anonymous_access is AnonymousAccess.EVERYWHERE
    assert result.config.persistence_enabled is False
    assert result.exit_code == 0


def test_listeners(tmp_path: Path) -> None:
    result = migrate_lines(
        tmp_path,
        *(
            "allow_anonymous true",
            "listener 1884 10.0.0.1",
            "max_connections 5",
            "listener 9001",
            "protocol websockets",
        ),
        *("listener 0 /run/mosquitto.sock", "listener 9001"),
    )
    found = [(each.host, each.port, each.connections_allowed) for each in result.config.acceptors]

    assert found == [("10.0.0.1", 1884, 5), ("0.0.0.0", 9001, -1)]
    assert "sockets of Unix" in result.report
    assert "port 9001 is taken" in result.report


def test_the_port_of_the_default_listener(tmp_path: Path) -> None:
    result = migrate_lines(tmp_path, "port 1999", "bind_address 10.1.1.1", "listener 2000")

    assert [(each.host, each.port) for each in result.config.acceptors] == [("10.1.1.1", 1999), ("0.0.0.0", 2000)]


def test_without_the_line_nobody_is_anonymous(tmp_path: Path) -> None:
    result = migrate_lines(tmp_path, "listener 1883")

    assert result.config.login.anonymous_access is AnonymousAccess.NOWHERE
    assert "nobody can log in" in result.report


@pytest.mark.parametrize(
    ("line", "parameter", "value"),
    [
        ("max_packet_size 5000", "maximumPacketSize", "5000"),
        ("message_size_limit 6000", "maximumPacketSize", "6000"),
        ("max_keepalive 120", "serverKeepAlive", "120"),
        ("max_inflight_messages 20", "defaultMaximumInFlightPublishMessages", "20"),
        ("max_inflight_messages 0", "defaultMaximumInFlightPublishMessages", "65535"),
        ("max_topic_alias 3", "topicAliasMaximum", "3"),
        ("persistent_client_expiration 2d", "defaultMqttSessionExpiryInterval", "172800"),
        ("persistent_client_expiration 1w", "mqttMaxSessionExpiryInterval", "604800"),
        ("global_max_clients 50", "mqttMaxSessions", "50"),
    ],
)
def test_parameters_of_all_acceptors(tmp_path: Path, line: str, parameter: str, value: str) -> None:
    (acceptor,) = migrate_lines(tmp_path, line).config.acceptors

    assert acceptor.parameters[parameter] == value


def test_limits_of_the_broker(tmp_path: Path) -> None:
    result = migrate_lines(tmp_path, "persistence true", "memory_limit 9000000", "max_queued_messages 500")

    assert result.config.persistence_enabled
    assert result.option("global-max-size") == 9_000_000
    assert result.setting("#", "default-ring-size") == 500


def test_users_keep_their_passwords(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text(f"ann:{mosquitto_hash('sesame')}\nold:$6$abc$def\nbroken\n")
    result = migrate_lines(tmp_path, "listener 1883", f"password_file {tmp_path}/passwords")

    assert result.users.verify("ann", "sesame")
    assert not result.users.verify("ann", "Sesame")
    assert not result.users.knows("old")
    assert "passwords:2: old: dropped: " in result.report
    assert result.config.security_settings["#"][Permission.SEND] == {"users"}


def test_a_file_of_the_container_is_looked_for_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text(f"ann:{mosquitto_hash('sesame')}\n")
    result = migrate_lines(tmp_path, "password_file /mosquitto/config/passwd")

    assert result.users.verify("ann", "sesame")


def test_a_password_file_that_is_missing_is_not_kept(tmp_path: Path) -> None:
    """There is one line about it, and it says what to do."""
    result = migrate_lines(tmp_path, "listener 1883", "password_file /no/where", "acl_file /no/acl")

    assert result.outcome("password_file").startswith("dropped: /no/where cannot be read")
    assert result.outcome("acl_file").startswith("dropped: /no/acl cannot be read")
    assert result.config.security_settings == {}


def test_a_plugin_that_may_guard_leaves_nobody_in_without_a_name(tmp_path: Path) -> None:
    result = migrate_lines(tmp_path, "allow_anonymous true", "plugin /usr/lib/mosquitto_dynamic_security.so")

    assert result.config.login.anonymous_access is AnonymousAccess.NOWHERE
    assert "may have decided about logins" in result.outcome("plugin")


def test_permissions_by_listener_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("topic a\n")
    (tmp_path / "two").write_text("topic b\n")
    lines = ["per_listener_settings true", "listener 1", "acl_file one", "listener 2", "acl_file two"]
    result = migrate_lines(tmp_path, "allow_anonymous true", *lines)

    assert result.config.security_settings == {}
    assert result.exit_code == 1


ACL = """
topic read $SYS/#
user ann
topic sensors/#
topic deny sensors/secret/#
user bob
topic read sensors/+/temp.c
pattern write devices/%u/#
pattern read clients/%c
"""


def test_permissions_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text(ACL)
    result = migrate_lines(tmp_path, "allow_anonymous true", "acl_file acl")
    found = result.config.security_settings

    assert found["$SYS.#"][Permission.CONSUME] == {"anonymous"}
    assert found["sensors.#"][Permission.SEND] == {"ann"}
    assert found["sensors.secret.#"] == {}
    assert found["sensors.*.temp\\.c"][Permission.CONSUME] == {"ann", "bob"}
    assert found["sensors.*.temp\\.c"][Permission.SEND] == {"ann"}
    assert found["devices.bob.#"][Permission.SEND] == {"bob"}
    assert "#" not in found
    assert "acl:9: pattern: dropped: " in result.report


def test_tls_needs_its_files(tmp_path: Path) -> None:
    key, certificate = tmp_path / "k.pem", tmp_path / "c.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=x",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    lines = ["listener 8883", "certfile c.pem", "keyfile k.pem", "cafile c.pem", "require_certificate true"]
    result = migrate_lines(tmp_path, *lines, "listener 8884", "certfile gone.pem", "keyfile gone.pem")
    (acceptor,) = result.config.acceptors

    assert acceptor.port == 8883
    assert acceptor.tls is not None
    assert acceptor.tls.need_client_auth
    assert acceptor.tls.private_key_path is not None
    assert acceptor.tls.private_key_path.stat().st_mode & 0o077 == 0
    assert "not opened without TLS" in result.report


def test_bridges_and_plugins_are_named(tmp_path: Path) -> None:
    result = migrate_lines(
        tmp_path,
        *("connection north", "address 10.0.0.9:1883", "topic # both", "remote_password secret9"),
        *("listener 1883", "plugin /usr/lib/dynsec.so", "plugin_opt_config_file x.json", "no_such_option 1"),
    )

    assert "bridge north" in result.outcome("connection")
    assert result.outcome("topic").startswith("dropped: belongs to bridge north")
    assert result.outcome("plugin").startswith("dropped: ")
    assert result.outcome("no_such_option").startswith("dropped: ")
    assert "secret9" not in result.report
    assert result.exit_code == 1


def test_included_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b.conf").write_text("listener 1885\nallow_anonymous true\ninclude_dir conf.d\n")
    result = migrate_lines(tmp_path, "include_dir conf.d")

    assert [each.port for each in result.config.acceptors] == [1885]
    assert "b.conf:1: listener: kept" in result.report


def test_defaults_that_are_written_out_are_not_missed(tmp_path: Path) -> None:
    lines = [
        "max_qos 2",
        "retain_available true",
        "allow_zero_length_clientid true",
        "log_dest stdout",
        "sys_interval 10",
    ]

    assert migrate_lines(tmp_path, *lines).exit_code == 0
