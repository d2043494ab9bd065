"""An instance of Artemis: what this broker does not know is named, key stores and users are carried over."""

from pathlib import Path

from artemis_py.core.runtime.access import Permission
from artemis_py.security.authenticator import AnonymousAccess
from tests.migration import Migrated, migrate
from tests.unit.migrate.jks import EMPTY_TRUST_STORE

BROKER = """<?xml version='1.0'?>
<configuration xmlns="urn:activemq" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
               xsi:schemaLocation="urn:activemq /schema/artemis-configuration.xsd">
  <jms xmlns="urn:activemq:jms"/>
  <core xmlns="urn:activemq:core">
    <name>west</name>
    <journal-directory>/var/lib/artemis/journal</journal-directory>
    <journal-type>ASYNCIO</journal-type>
    <critical-analyzer>true</critical-analyzer>
    <connectors><connector name="a">tcp://h:1</connector></connectors>
    <acceptors>
      <acceptor name="all">tcp://0.0.0.0:61616?tcpSendBufferSize=1048576;useEpoll=true;amqpCredits=900;protocols=CORE,AMQP,STOMP,HORNETQ,MQTT,OPENWIRE;noSuchThing=1</acceptor>
      <acceptor name="stomp">tcp://0.0.0.0:61613?protocols=STOMP</acceptor>
      <acceptor name="tls">tcp://0.0.0.0:5671?sslEnabled=true;keyStorePath=k.jks;keyStorePassword=geheim</acceptor>
    </acceptors>
    <security-settings>
      <security-setting match="#">
        <permission type="send" roles="amq"/>
        <permission type="view" roles="amq"/>
      </security-setting>
    </security-settings>
    <address-settings>
      <address-setting match="#">
        <dead-letter-address>DLQ</dead-letter-address>
        <auto-create-jms-queues>true</auto-create-jms-queues>
        <auto-create-queues>true</auto-create-queues>
        <page-size-bytes>10M</page-size-bytes>
        <redistribution-delay>0</redistribution-delay>
      </address-setting>
    </address-settings>
    <addresses><address name="orders"><anycast><queue name="orders"/></anycast></address></addresses>
    <broker-plugins><broker-plugin class-name="x"/></broker-plugins>
  </core>
</configuration>
"""
LOGIN = """activemq {
   org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
       org.apache.activemq.jaas.properties.user="artemis-users.properties"
       org.apache.activemq.jaas.properties.role="artemis-roles.properties";
   org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule sufficient
       org.apache.activemq.jaas.guest.role="amq";
};
"""
BOOTSTRAP = """<broker xmlns="http://activemq.apache.org/schema">
  <jaas-security domain="activemq"/><server configuration="x"/>
</broker>
"""


def migrate_instance(folder: Path) -> Migrated:
    etc = folder / "old" / "etc"
    etc.mkdir(parents=True)
    (etc / "broker.xml").write_text(BROKER)
    (etc / "login.config").write_text(LOGIN)
    (etc / "bootstrap.xml").write_text(BOOTSTRAP)
    (etc / "artemis-users.properties").write_text("ann = sesame\nold = ENC(99:beef:beef)\n")
    (etc / "artemis-roles.properties").write_text("amq = ann,old\n")
    (etc / "k.jks").write_bytes(EMPTY_TRUST_STORE)
    return migrate(folder / "old", folder / "new")


def test_what_both_know_is_copied(tmp_path: Path) -> None:
    result = migrate_instance(tmp_path)
    (acceptor,) = result.config.acceptors

    assert result.option("name") == "west"
    assert set(acceptor.protocols) == {"AMQP", "MQTT", "OPENWIRE"}
    assert acceptor.parameters["amqpCredits"] == "900"
    assert result.setting("#", "dead-letter-address") == "DLQ"
    assert result.setting("#", "auto-create-queues") is True
    assert result.config.security_settings["#"] == {Permission.SEND: {"amq"}, Permission.VIEW: {"amq"}}


def test_the_store_is_a_new_one(tmp_path: Path) -> None:
    result = migrate_instance(tmp_path)

    assert result.option("journal-directory") == "data/journal"
    assert result.outcome("journal-directory").startswith("changed: ")


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    result = migrate_instance(tmp_path)

    assert result.outcome("connectors").startswith("dropped: ")
    assert result.outcome("broker-plugins").startswith("dropped: ")
    assert result.outcome("critical-analyzer").startswith("not needed: ")
    assert result.outcome("page-size-bytes").startswith("not needed: ")
    assert result.outcome("acceptor.useEpoll").startswith("not needed: ")
    assert "parameter noSuchThing: is unknown" in result.report
    assert result.outcome("acceptor stomp").startswith("dropped: STOMP: not spoken here")
    assert "CORE, STOMP, HORNETQ: not spoken here" in result.report
    assert result.exit_code == 1


def test_a_key_store_that_cannot_be_read_opens_nothing(tmp_path: Path) -> None:
    result = migrate_instance(tmp_path)

    assert [each.name for each in result.config.acceptors] == ["all"]
    assert "k.jks was made with another password, or is damaged; the acceptor is left out" in result.report
    assert "geheim" not in result.report


def test_users_and_guests(tmp_path: Path) -> None:
    result = migrate_instance(tmp_path)

    assert result.users.verify("ann", "sesame")
    assert result.users.subject("ann").roles == {"amq"}
    assert "artemis-users.properties:2: old: dropped: " in result.report
    assert result.config.login.anonymous_access is AnonymousAccess.EVERYWHERE
    assert result.config.login.anonymous_roles == ("amq",)


def test_a_dead_letter_address_gets_a_queue(tmp_path: Path) -> None:
    declared = {each.name: each for each in migrate_instance(tmp_path).config.addresses}

    assert [queue.name for queue in declared["DLQ"].queues] == ["DLQ"]


BRIDGES = """<connectors><connector name="far">tcp://far:61616?useEpoll=true</connector></connectors>
    <bridges><bridge name="b"><queue-name>orders</queue-name><ha>true</ha>
      <static-connectors><connector-ref>far</connector-ref></static-connectors></bridge></bridges>
    <broker-connections>
      <amqp-connection uri="tcp://far:5672" name="c">
        <sender address-match="o.#"/>
        <mirror/>
      </amqp-connection>
      <amqp-connection uri="tcp://far:5672" name="masked" user="u" password="ENC(1234)"><sender queue-name="orders"/>
      </amqp-connection>
    </broker-connections>
    <acceptors>"""


def test_bridges_and_broker_connections_are_kept(tmp_path: Path) -> None:
    """With the connectors that they use. Mirrors are taken out, and so is a login that only Artemis can read."""
    connectors = '<connectors><connector name="a">tcp://h:1</connector></connectors>'
    etc = tmp_path / "old" / "etc"
    etc.mkdir(parents=True)
    (etc / "broker.xml").write_text(BROKER.replace(connectors, "").replace("<acceptors>", BRIDGES))
    result = migrate(tmp_path / "old", tmp_path / "new")

    assert [(each.options.name, each.uri) for each in result.config.broker_connections] == [
        ("c", "tcp://far:5672"),
        ("b", "tcp://far:61616"),
    ]
    assert result.outcome("bridges").startswith("changed: they speak AMQP")
    assert "password is masked" in result.report
    assert "mirror" in result.report
    assert "ENC(1234)" not in result.report
