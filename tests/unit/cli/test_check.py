"""`artemis-py check` finds what a start would refuse, with all other mistakes, and what is doubtful."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from artemis_py.cli.check import check, examine

BROKER = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled>
<acceptors><acceptor name="a">tcp://127.0.0.1:0?{parameters}</acceptor></acceptors>
<addresses><address name="orders"><anycast><queue name="{queue}"/></anycast></address></addresses>
</core></configuration>"""


def written(folder: Path, queue: str = "orders", parameters: str = "protocols=AMQP") -> Path:
    file = folder / "broker.xml"
    file.write_text(BROKER.format(queue=queue, parameters=parameters), encoding="utf-8")
    return file


def test_what_a_start_would_refuse_is_a_mistake_among_the_others(tmp_path: Path) -> None:
    """A name that the core does not take is known only where queues are made."""
    file = written(tmp_path, "q" * 5000, "protocols=MORSE")

    first, second = examine(file).problems

    assert (first.file, first.message) == (str(file), "the name of the queue has 5000 characters; 4096 are allowed")
    assert "MORSE" in second.message


def test_nothing_is_left_of_the_trial(tmp_path: Path) -> None:
    """No folder, no file: the broker that was asked never started."""
    file = written(tmp_path)

    examine(file)

    assert list(tmp_path.iterdir()) == [file]


def test_a_circle_of_diverts_is_a_warning(tmp_path: Path) -> None:
    """The broker would start; the names are in the text."""
    file = written(tmp_path)
    divert = "<divert name='{}'><address>{}</address><forwarding-address>{}</forwarding-address></divert>\n"
    inside = "<diverts>\n" + divert.format("d", "a", "b") + divert.format("e", "b", "a") + "</diverts></core>"
    file.write_text(file.read_text(encoding="utf-8").replace("</core>", inside), encoding="utf-8")

    outcome = CliRunner().invoke(check, [str(file)])

    assert outcome.exit_code == 0
    text = "divert: the diverts d -> e -> d form a circle; a message goes through each of them once"
    assert f"warning: {file}:6: {text}" in outcome.output


def test_what_http_needs_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its certificate, its host, and the packages of the extra."""
    file = written(tmp_path)
    web = '<web xmlns="urn:artemis-py"><bind>https://no.such.host.invalid?keyStorePath=broker.xml</bind></web>'
    file.write_text(file.read_text(encoding="utf-8").replace("</core>", f"</core>\n{web}"), encoding="utf-8")
    monkeypatch.setattr("artemis_py.cli.check.find_spec", lambda name: None)

    found = examine(file)

    certificate, extra = found.problems
    assert (certificate.line, "keyStorePath=" in certificate.message) == (6, True)
    assert (extra.line, extra.element) == (6, "web")
    assert "pip install 'artemis-py-broker[http]'" in extra.message
    assert any("no.such.host.invalid does not resolve" in warning.message for warning in found.warnings)


def test_certificates_of_connections_to_other_brokers_are_looked_at(tmp_path: Path) -> None:
    """A start would refuse the file."""
    file = written(tmp_path)
    connection = (
        '<broker-connections><amqp-connection name="c" uri="tcp://h:1?sslEnabled=true;trustStorePath=broker.xml">'
        '<sender queue-name="orders"/></amqp-connection></broker-connections>'
    )
    file.write_text(file.read_text(encoding="utf-8").replace("</core>", f"{connection}</core>"), encoding="utf-8")

    (found,) = examine(file).problems

    assert (found.element, "trustStorePath=" in found.message) == ("connector c", True)


WRONG = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<global-max-sise>1</global-max-sise>
<journal-type>NIO</journal-type>
<acceptors>
<acceptor name="a">tcp://127.0.0.1:0?protocols=MORSE</acceptor>
<acceptor name="b">tcp://127.0.0.1:0?sslEnabled=true;keyStorePath=broker.xml</acceptor>
</acceptors>
<address-settings><address-setting match="#">
<dead-letter-address>nowhere</dead-letter-address></address-setting></address-settings>
<security-settings><security-setting match="#">
<permission type="send" roles="app,typo"/>
</security-setting></security-settings>
</core></configuration>"""


def test_everything_is_found_in_one_pass(tmp_path: Path) -> None:
    """Elements, acceptors, certificates and users, and all warnings with them."""
    file = tmp_path / "broker.xml"
    file.write_text(WRONG, encoding="utf-8")
    (tmp_path / "artemis-users.properties").write_text("ann = ENC(x)\n", encoding="utf-8")
    (tmp_path / "artemis-roles.properties").write_text("app = ann\n", encoding="utf-8")

    outcome = CliRunner().invoke(check, [str(file)])

    assert outcome.exit_code == 2
    told = [line.replace(f"{tmp_path}/", "") for line in outcome.output.splitlines()]
    assert [line[:50] for line in told] == [
        "warning: broker.xml:3: journal-type: has no effect",
        'warning: broker.xml:8: address-setting: match "#":',
        "artemis-users.properties:1: ann: expected ENC($arg",
        "broker.xml:2: global-max-sise: is not an element o",
        "broker.xml:5: acceptor: parameter protocols: MORSE",
        "broker.xml:6: acceptor b: keyStorePath=broker.xml ",
        "4 problems found; nothing was started",
    ]


def instance(folder: Path, host: str = "127.0.0.1", roles: str = "app", users: str = "app = ann") -> Path:
    """A configuration with security that is right."""
    file = folder / "broker.xml"
    text = WRONG.replace("<global-max-sise>1</global-max-sise>", "").replace("<journal-type>NIO</journal-type>", "")
    text = text.replace("127.0.0.1:0?protocols=MORSE", f"{host}:0").replace("app,typo", roles).replace("nowhere", "")
    lines = [line for line in text.splitlines() if "sslEnabled" not in line]
    file.write_text("\n".join(lines), encoding="utf-8")
    (folder / "artemis-users.properties").write_text("", encoding="utf-8")
    (folder / "artemis-roles.properties").write_text(users, encoding="utf-8")
    return file


def test_a_role_that_nobody_has_is_a_warning(tmp_path: Path) -> None:
    """A spelling mistake in a role locks its users out; anonymous clients have roles as well."""
    (warning,) = examine(instance(tmp_path, roles="app,guests,typo,typo")).warnings

    assert str(warning) == (
        f'{tmp_path}/broker.xml:10: permission: nobody has the role "typo"; add it to artemis-roles.properties, or '
        "check its spelling"
    )


def test_a_role_that_others_include_needs_nobody(tmp_path: Path) -> None:
    """artemis-model §6.3, role mappings."""
    file = instance(tmp_path, roles="ops")
    mapping = '<role-mapping from="app" to="ops"/></security-settings>'
    file.write_text(file.read_text(encoding="utf-8").replace("</security-settings>", mapping), encoding="utf-8")

    assert examine(file).warnings == []


def test_a_host_that_does_not_resolve_is_a_warning(tmp_path: Path) -> None:
    """The file may be for another machine."""
    findings = examine(instance(tmp_path, host="no-such-host.invalid"))

    assert findings.problems == []
    assert [warning.message for warning in findings.warnings] == [
        "the host no-such-host.invalid does not resolve on this machine; write an address such as 0.0.0.0"
    ]
    assert examine(instance(tmp_path, host="[::1]")).warnings == []


def test_warnings_fail_only_if_that_is_asked_for(tmp_path: Path) -> None:
    """For a pipeline that wants none."""
    file = instance(tmp_path, roles="app,typo")
    lenient, strict = (CliRunner().invoke(check, [*options, str(file)]) for options in ([], ["--strict"]))

    assert lenient.exit_code == 0
    assert f"ok: {file} (1 warning)" in lenient.output
    assert strict.exit_code == 2
    assert "1 warning found; --strict allows none" in strict.output
    assert CliRunner().invoke(check, ["--strict", str(instance(tmp_path))]).exit_code == 0


def test_passwords_that_are_not_hashed_are_a_warning(tmp_path: Path) -> None:
    """As at a start."""
    file = instance(tmp_path)
    (tmp_path / "artemis-users.properties").write_text("ann = secret\n", encoding="utf-8")

    (warning,) = examine(file).warnings

    assert "passwords that are not hashed: 1" in warning.message


def test_bytes_that_are_no_xml_are_one_mistake(tmp_path: Path) -> None:
    """Nothing else can be said about them."""
    file = tmp_path / "broker.xml"
    file.write_text("<configuration", encoding="utf-8")

    assert len(examine(file).problems) == 1
    assert "cannot be read" in str(examine(tmp_path / "none.xml").problems[0])


def test_the_journal_of_artemis_is_a_warning(tmp_path: Path) -> None:
    """An instance that Artemis has used starts with no messages, and its operator should not wonder where they are."""
    file = instance(tmp_path)
    journal = tmp_path / "data" / "journal"
    journal.mkdir(parents=True)
    (journal / "activemq-data-1.amq").touch()

    assert [str(warning) for warning in examine(file).warnings] == [
        (
            f"{journal}:0: journal-directory: Artemis has kept messages here, which are not read; let clients consume "
            "them from Artemis first"
        )
    ]
    in_memory = file.read_text().replace("<acceptors>", "<persistence-enabled>false</persistence-enabled><acceptors>")
    file.write_text(in_memory)
    assert examine(file).warnings == []


def test_the_files_of_an_acceptor_that_is_left_out_do_not_matter(tmp_path: Path) -> None:
    """Its key store is never read."""
    file = instance(tmp_path)
    (tmp_path / "stomp.jks").write_bytes(bytes.fromhex("feedfeed"))
    stomp = '<acceptor name="s">tcp://127.0.0.1:1?protocols=STOMP;sslEnabled=true;keyStorePath=stomp.jks</acceptor>'
    file.write_text(file.read_text().replace("</acceptors>", f"{stomp}</acceptors>"))
    findings = examine(file)

    assert findings.problems == []
    assert [warning.message for warning in findings.warnings] == [
        "s is left out: artemis_py does not speak STOMP, nobody can connect to port 1"
    ]


def test_roles_of_anonymous_clients_do_not_count_where_there_are_none(tmp_path: Path) -> None:
    """With NOWHERE nobody has them."""
    file = instance(tmp_path, roles="app,guests")
    login = '<login xmlns="urn:artemis-py"><anonymous-access>NOWHERE</anonymous-access></login></configuration>'
    file.write_text(file.read_text().replace("</configuration>", login))

    (warning,) = examine(file).warnings

    assert 'nobody has the role "guests"' in warning.message
