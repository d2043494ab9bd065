"""Connectors, discovery groups and cluster connections: what is read, and what cannot work (mesh §2.1 to §2.4)."""

from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from lxml import etree

from artemis_py.config.clusters import read_clusters, read_discovery_groups
from artemis_py.config.connectors import read_connectors
from artemis_py.config.elements import Elements
from artemis_py.config.mesh_check import MeshParts, check_mesh
from artemis_py.config.report import Report
from artemis_py.config.variables import Overrides
from artemis_py.core.settings.cluster_config import (
    CLUSTER_OPTIONS,
    ClusterConfig,
    ClusterLogin,
    DiscoveryConfig,
    LoadBalancing,
    Scope,
)
from artemis_py.transport.config import CONNECTOR_OPTIONS, AcceptorConfig, ConnectorConfig, ConnectorTls, TlsConfig
from tests.unit.config import samples
from tests.unit.config.samples import other_value

CERTIFICATES = Path(__file__).parents[2] / "transport" / "certificates"


@frozen
class Read:
    """A part of a file as it is read, and what is said about it."""

    connectors: dict[str, ConnectorConfig]
    groups: dict[str, DiscoveryConfig]
    clusters: tuple[ClusterConfig, ...]
    report: Report

    @property
    def problems(self) -> list[str]:
        """The texts, with their lines."""
        return [f"{each.line} {each.element}: {each.message}" for each in self.report.problems]

    @property
    def warnings(self) -> list[str]:
        """The texts, with their lines."""
        return [f"{each.line} {each.element}: {each.message}" for each in self.report.warnings]

    def check(self, *acceptors: AcceptorConfig, has_password: bool = True) -> "Read":
        """Look at the mesh as a whole."""
        login = ClusterLogin(user="mesh", password="secret" if has_password else "")
        parts = MeshParts(clusters=self.clusters, connectors=self.connectors, acceptors=acceptors, login=login)
        check_mesh(parts, self.report)
        return self


def read(text: str) -> Read:
    """Of the elements in core; the first one is in line 2."""
    core = etree.fromstring(f'<core xmlns="urn:activemq:core">\n{text}</core>')
    report = Report("broker.xml")
    elements = Elements(Overrides({}), report)
    connectors = {each.name: each for each in read_connectors(core, elements, CERTIFICATES)}
    groups = {each.name: each for each in read_discovery_groups(core, elements)}
    return Read(connectors, groups, read_clusters(core, elements, connectors, groups), report)


def connectors(**urls: str) -> str:
    """Some connectors, all in one line."""
    return "<connectors>" + "".join(f'<connector name="{k}">{v}</connector>' for k, v in urls.items()) + "</connectors>"


OWN = "tcp://here.example:61616"
OTHER = "tcp://there.example:61617"
TWO = connectors(own=OWN, other=OTHER)


def cluster(inside: str = "", name: str = "mesh", static: str | None = "other") -> str:
    """A cluster connection in a line of its own."""
    known = "" if static is None else f"<static-connectors><connector-ref>{static}</connector-ref></static-connectors>"
    return (
        f'\n<cluster-connections><cluster-connection name="{name}"><connector-ref>own</connector-ref>{inside}{known}'
        "</cluster-connection></cluster-connections>"
    )


# -- connectors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", CONNECTOR_OPTIONS, ids=lambda option: option.name)
def test_a_parameter_of_a_connector_is_read(option: Any) -> None:
    """Under the name that Artemis has for it."""
    text, value = other_value(option)
    found = read(connectors(a=f"tcp://h:1?{option.name}={text}"))

    assert getattr(found.connectors["a"], option.attribute) == value
    assert found.problems == []


def test_a_connector_has_a_host_a_port_and_tls() -> None:
    """Files are relative to the folder of broker.xml."""
    found = read(
        connectors(
            a="tcp://[::1]:7",
            b="tcp://h?sslEnabled=true;trustStorePath=authority.pem;keyStorePath=client.pem;keyStorePassword=x;"
            "sniHost=s;enabledProtocols=TLSv1.3",
        )
    )

    assert (found.connectors["a"].host, found.connectors["a"].port, found.connectors["a"].tls) == ("::1", 7, None)
    assert (found.connectors["a"].url, found.connectors["b"].url) == ("tcp://[::1]:7", "tcp://h:61616")
    assert found.connectors["b"].tls == ConnectorTls(
        trust_store_path=CERTIFICATES / "authority.pem",
        key_store_path=CERTIFICATES / "client.pem",
        key_store_password="x",
        enabled_protocols=("TLSv1.3",),
        sni_host="s",
    )
    assert (found.problems, found.warnings) == ([], [])
    assert "x" not in repr(found.connectors["b"].tls).replace("None", "").partition("password")[2]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("here:1", "is not a URL"),
        ("http://h:1", "scheme http: only tcp is supported"),
        ("tcp://h:99999", "has no valid host and port"),
        ("tcp://h:0", "port 0 is no port to connect to"),
        ("tcp://u@h:1", "is not of the form"),
        ("tcp://h:1?tcpNoDelay=yes", "parameter tcpNoDelay"),
        ("tcp://h:1?verifyHosts=true", "did you mean verifyHost?"),
        ("tcp://h:1?sslEnabled=true;trustStorePath=missing.pem", "there is no file"),
        ("tcp://h:1?sslEnabled=true;privateKeyPath=client.pem", "parameter keyStorePath: is missing"),
        ("tcp://h:1?trustAll=true", "any broker could stand in"),
        ("tcp://h:1?socksEnabled=true", "connections do not go through a proxy"),
        ("tcp://h:1?sslEnabled=true;trustStoreType=JKS", "key stores of Java are not read"),
        ("tcp://h:1?connect-timeout-millis=0", "0 is too small"),
    ],
)
def test_a_connector_that_cannot_work_is_named(url: str, problem: str) -> None:
    """With its line."""
    (found,) = read(connectors(a=url)).problems

    assert found.startswith("2 connector:")
    assert problem in found


@pytest.mark.parametrize(
    ("url", "warning"),
    [
        ("vm://0", "is left out"),
        ("tcp://h:1?batchDelay=5", "has no effect here"),
        ("tcp://h:1?supportAdvisory=false", "it is for acceptors"),
        ("tcp://h:1?trustAll=false", "has no effect here"),
        ("tcp://h:1?sslEnabled=true;verifyHost=false", "can stand in for the other broker"),
    ],
)
def test_what_a_file_of_artemis_has_besides_is_a_warning(url: str, warning: str) -> None:
    """Such a file can be used as it is."""
    found = read(connectors(a=url))

    assert found.problems == []
    assert warning in found.warnings[0]


def test_connectors_have_names_of_their_own() -> None:
    """A reference would be to either of them."""
    text = (
        '<connectors><connector name="a">tcp://h:1</connector>\n<connector name="a">tcp://i:1</connector></connectors>'
    )

    assert read(text).problems == [
        '3 connector: there is another connector called "a"; give each its own name',
    ]


# -- cluster connections -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", CLUSTER_OPTIONS, ids=lambda option: option.name)
def test_a_child_of_a_cluster_connection_is_read(option: Any) -> None:
    """Under the name that Artemis has for it, or its own."""
    text, value = other_value(option)
    found = read(TWO + cluster(f"<{option.name}>{text}</{option.name}>"))

    assert getattr(found.clusters[0], option.attribute) == value
    assert found.problems == []


def test_a_cluster_connection_has_a_name_connectors_and_a_scope() -> None:
    """Without the name of a connector that comes twice."""
    text = (
        '<cluster-connections><cluster-connection name=" mesh "><address>eu, !eu.test</address>'
        '<connector-ref>own</connector-ref><static-connectors allow-direct-connections-only="true">'
        "<connector-ref>other</connector-ref><connector-ref> own </connector-ref><connector-ref>other</connector-ref>"
        "</static-connectors></cluster-connection></cluster-connections>"
    )

    assert read(TWO + text).clusters == (
        ClusterConfig(
            name="mesh",
            connector="own",
            static_connectors=("other", "own"),
            direct_connections_only=True,
            scope=Scope(("eu",), ("eu.test",)),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("true", "", LoadBalancing.STRICT),
        ("false", "", LoadBalancing.ON_DEMAND),
        ("false", "OFF", LoadBalancing.ON_DEMAND),
        ("true", "OFF", LoadBalancing.STRICT),
    ],
)
def test_the_old_form_of_load_balancing_counts(old: str, new: str, expected: LoadBalancing) -> None:
    """As in Artemis, and with a warning that names its line (C10)."""
    both = f"<message-load-balancing>{new}</message-load-balancing>" if new else ""
    found = read(TWO + cluster(f"{both}\n<forward-when-no-consumers>{old}</forward-when-no-consumers>"))

    assert found.clusters[0].load_balancing is expected
    assert found.warnings == [
        f"4 forward-when-no-consumers: is an old form; write {expected.name} into message-load-balancing"
        + (", which it replaces" if new else "")
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TWO + cluster(static="third"), 'connector-ref: there is no connector "third"; <connectors> has own, other'),
        (cluster(static=None), 'connector-ref: there is no connector "own"; <connectors> has none'),
        (TWO + cluster("<address>eu,!</address>"), "address: a ! needs a prefix behind it, such as !test."),
        (TWO + cluster("<max-hops>9</max-hops>"), "max-hops: 9 is too large; write 8 or less"),
        (
            TWO + cluster("<message-load-balancing>ON</message-load-balancing>"),
            'message-load-balancing: "ON" is unknown',
        ),
        (TWO + cluster("<forward-when-no-consumers>no</forward-when-no-consumers>"), '"no" is neither true nor false'),
        (
            TWO + cluster('<discovery-group-ref discovery-group-name="g"/>', static=None),
            'discovery-group-ref: there is no discovery group "g"; <discovery-groups> has none',
        ),
        (
            "<discovery-groups><discovery-group name='g'><dns>a</dns></discovery-group></discovery-groups>"
            + TWO
            + cluster('<discovery-group-ref discovery-group-name="g"/>'),
            "discovery-group-ref: stands beside static-connectors; keep one of the two",
        ),
    ],
)
def test_a_cluster_connection_that_cannot_work_is_named(text: str, problem: str) -> None:
    """With its line and its element."""
    found = read(text).problems

    assert any(problem in each for each in found), found


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("", "", '"a" and "b" share all addresses'),
        ("eu", "", '"a" and "b" share addresses such as "eux"'),
        ("eu,us", "us.test", '"a" and "b" share addresses such as "us.testx"'),
        ("eu", "us", None),
        ("!eu", "eu", None),
    ],
)
def test_two_meshes_share_no_address(one: str, other: str, expected: str | None) -> None:
    """Their messages would be delivered twice (C11)."""
    text = TWO + cluster(f"<address>{one}</address>", "a") + cluster(f"<address>{other}</address>", "b")
    found = read(text).problems

    assert [each.partition(",")[0] for each in found][1:] == ([f"4 cluster-connection: {expected}"] if expected else [])


def test_two_meshes_have_names_of_their_own() -> None:
    """Peers are told apart by it."""
    text = TWO + cluster("<address>a</address>", "x") + cluster("<address>b</address>", "x")

    first, second = read(text).problems
    assert first.startswith("4 cluster-connection: is a second mesh, and a broker belongs to one;")
    assert second == '4 cluster-connection: there is another cluster connection called "x"; give each its own name'


@pytest.mark.parametrize(
    ("inside", "static", "warning"),
    [
        ("", None, "names no other broker: this one waits until others name it"),
        ("", "own", "names no other broker: this one waits until others name it"),
        ("<connection-ttl>1000</connection-ttl>", "other", "connection-ttl is not above check-period"),
        ("<reconnect-attempts>5</reconnect-attempts>", "other", "reconnect-attempts: then the broker is not dialled"),
        (
            "<initial-connect-attempts>5</initial-connect-attempts>",
            "other",
            "initial-connect-attempts: then the broker",
        ),
    ],
)
def test_what_may_not_be_meant_is_a_warning(inside: str, static: str | None, warning: str) -> None:
    """The mesh works, although perhaps not as it looks."""
    found = read(TWO + cluster(inside, static=static))

    assert found.problems == []
    assert any(warning in each for each in found.warnings), found.warnings


# -- discovery groups ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<dns>_artemis._tcp.x</dns>", DiscoveryConfig(name="g", dns_name="_artemis._tcp.x")),
        ("<dns> brokers.x </dns>", DiscoveryConfig(name="g", dns_name="brokers.x", dns_port=61616)),
        ('<dns port="5">brokers.x</dns>', DiscoveryConfig(name="g", dns_name="brokers.x", dns_port=5)),
        (
            "<dns>x</dns><refresh-timeout>500</refresh-timeout>",
            DiscoveryConfig(name="g", dns_name="x", dns_port=61616, refresh_timeout_ms=500),
        ),
        ("<zeroconf> shop </zeroconf>", DiscoveryConfig(name="g", zeroconf_group="shop")),
        (
            '<zeroconf interface="192.168.1.5">shop</zeroconf>',
            DiscoveryConfig(name="g", zeroconf_group="shop", zeroconf_interface="192.168.1.5"),
        ),
    ],
)
def test_a_discovery_group_says_what_to_look_up(inside: str, expected: DiscoveryConfig) -> None:
    """SRV records have ports, addresses need one."""
    group = f'<discovery-groups><discovery-group name="g">{inside}</discovery-group></discovery-groups>'
    found = read(TWO + group + cluster('<discovery-group-ref discovery-group-name="g"/>', static=None))

    assert found.groups == {"g": expected}
    assert found.clusters[0].discovery_group == "g"
    assert (found.problems, found.warnings) == ([], [])


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ("", "discovery-group: names nothing to look up"),
        ("<dns/>", "dns: is empty"),
        ('<dns port="5">_a._tcp.x</dns>', "dns: attribute port: SRV records have ports of their own"),
        ('<dns port="70000">x</dns>', "dns: attribute port: 70000 is too large"),
        ("<zeroconf/>", "zeroconf: write a name that the brokers of this mesh have in common"),
        (f"<zeroconf>{201 * 'x'}</zeroconf>", "zeroconf: write a name that the brokers of this mesh have in common"),
        ('<zeroconf interface="eth0">x</zeroconf>', 'zeroconf: attribute interface: "eth0" is no address'),
        ("<dns>x</dns><zeroconf>x</zeroconf>", "zeroconf: stands beside dns; keep one of the two"),
    ],
)
def test_a_discovery_group_that_finds_nobody_is_named(inside: str, problem: str) -> None:
    """It would be waited for in vain."""
    (found,) = read(
        f'<discovery-groups><discovery-group name="g">{inside}</discovery-group></discovery-groups>'
    ).problems
    assert problem in found


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ("<dns>_a._tcp.x</dns>", "dns: SRV records need dnspython: pip install 'artemis-py-broker[dns]'"),
        ("<zeroconf>x</zeroconf>", "needs the package zeroconf: pip install 'artemis-py-broker[zeroconf]'"),
    ],
)
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, inside: str, problem: str) -> None:
    """By `check` already; addresses in the DNS need nothing."""
    monkeypatch.setattr("artemis_py.config.clusters.find_spec", lambda package: None)
    groups = f'<discovery-group name="g">{inside}</discovery-group>'
    groups += '<discovery-group name="h"><dns>brokers.x</dns></discovery-group>'
    found = read(f"<discovery-groups>{groups}</discovery-groups>")

    assert [problem in each for each in found.problems] == [True]
    assert list(found.groups) == ["h"]


# -- the mesh as a whole -------------------------------------------------------------------------------------------

ACCEPTOR = AcceptorConfig(name="a", host="0.0.0.0", sasl_mechanisms=("SCRAM-SHA-256",))
ENCRYPTED = AcceptorConfig(name="a", tls=TlsConfig(key_store_path=Path("x")))
SECRET = "?sslEnabled=true;trustStorePath=authority.pem"


def mesh(own: str = OWN, other: str = OTHER) -> Read:
    """This broker and another one."""
    return read(connectors(own=own, other=other) + cluster())


def test_a_mesh_that_can_work_is_not_spoken_of() -> None:
    """With a password, or a certificate; behind any number of other acceptors."""
    assert mesh().check(ACCEPTOR).problems == []
    assert mesh().check(ACCEPTOR).warnings == []
    certified = mesh(OWN + SECRET + ";keyStorePath=client.pem", OTHER + SECRET)
    assert certified.check(ENCRYPTED, has_password=False).problems == []
    assert certified.warnings == []


@pytest.mark.parametrize(
    ("own", "other", "acceptors", "has_password", "problem"),
    [
        ("tcp://0.0.0.0:61616", OTHER, [ACCEPTOR], True, "others are told 0.0.0.0:61616, which is no address"),
        ("tcp://localhost:61616", OTHER, [ACCEPTOR], True, "which means their own machine to them"),
        ("tcp://127.0.0.2:61616", OTHER, [ACCEPTOR], True, "which means their own machine to them"),
        (OWN, OTHER, [ACCEPTOR], False, '"mesh" has nothing to log in with: set cluster-user and cluster-password'),
        (OWN + SECRET, OTHER, [ENCRYPTED], False, '"mesh" has nothing to log in with'),
        (OWN, OTHER, [ENCRYPTED], True, "the acceptor has TLS, and the connector of port 61616 has not"),
        (OWN + SECRET, OTHER, [ACCEPTOR], True, "the connector has TLS, and the acceptor of port 61616 has not"),
    ],
)
def test_a_mesh_that_cannot_work_is_named(
    own: str, other: str, acceptors: list[AcceptorConfig], has_password: bool, problem: str
) -> None:
    """Before it is started on ten machines."""
    found = mesh(own, other).check(*acceptors, has_password=has_password).problems

    assert any(problem in each for each in found), found
    assert all(each.startswith("2 connector:") for each in found)


@pytest.mark.parametrize(
    ("own", "other", "acceptors", "warning"),
    [
        ("tcp://here.example:7", OTHER, [ACCEPTOR], "port 7, on which no acceptor speaks AMQP"),
        (OWN, OTHER, [AcceptorConfig(name="m", protocols=("MQTT",))], "port 61616, on which no acceptor speaks AMQP"),
        (OWN, "tcp://HERE.example:61616", [ACCEPTOR], '"own" is this broker itself'),
        (OWN, OTHER, [AcceptorConfig(name="a")], "a password is not sent to another machine without TLS"),
    ],
)
def test_a_mesh_that_may_not_work_is_warned_of(
    own: str, other: str, acceptors: list[AcceptorConfig], warning: str
) -> None:
    """A network may do more than the file shows."""
    found = mesh(own, other).check(*acceptors)

    assert found.problems == []
    assert any(warning in each for each in found.warnings), found.warnings


def test_this_broker_may_be_in_its_own_list() -> None:
    """The same file is then good for all members (C12)."""
    text = connectors(own="tcp://127.0.0.1:61616", other="tcp://localhost:61617") + cluster(
        static="other</connector-ref><connector-ref>own"
    )
    found = read(text).check(ACCEPTOR)

    assert found.problems == []
    assert found.warnings == [
        '2 connector: "own" is this broker itself, and is left out of the static connectors of "mesh"'
    ]


# -- in a whole file -----------------------------------------------------------------------------------------------

FILE = (
    "<acceptors><acceptor name='a'>tcp://127.0.0.1:61616</acceptor></acceptors>"
    "<connectors><connector name='own'>tcp://127.0.0.1:61616</connector>"
    "<connector name='other'>tcp://127.0.0.1:61617</connector></connectors>"
    "<cluster-user>mesh</cluster-user><cluster-password>${{SECRET:x}}</cluster-password>"
    "<cluster-connections><cluster-connection name='m'><connector-ref>own</connector-ref>{}"
    "<static-connectors><connector-ref>other</connector-ref></static-connectors></cluster-connection>"
    "</cluster-connections>{}"
)


def test_a_file_with_a_mesh_is_read_as_a_whole() -> None:
    """The password may come from outside, and is in no text that describes the configuration."""
    config = samples.read(FILE.format("<max-hops>2</max-hops>", ""), SECRET="hidden")

    assert (config.clusters[0].name, config.clusters[0].max_hops) == ("m", 2)
    assert [each.name for each in config.connectors] == ["own", "other"]
    assert config.cluster_login == ClusterLogin(user="mesh", password="hidden")
    assert "hidden" not in repr(config)
    assert config.warnings == ()


def test_what_is_wrong_with_a_mesh_keeps_the_broker_from_starting() -> None:
    """With the line, as every other mistake."""
    text = FILE.format("", "").replace("<connector-ref>other<", "<connector-ref>others<")

    assert samples.mistakes(text) == [
        'broker.xml:4: connector-ref: there is no connector "others"; <connectors> has own, other'
    ]


def test_a_delay_that_strands_messages_is_warned_of() -> None:
    """It is the default of Artemis, so many files say it (C9)."""
    setting = "\n<address-settings><address-setting match='a.#'><redistribution-delay>-1</redistribution-delay>"
    text = FILE.format("", setting + "</address-setting></address-settings>")
    (warning,) = samples.read(text).warnings

    assert (warning.line, warning.element) == (5, "address-setting")
    assert 'match "a.#": redistribution-delay -1: messages that wait stay' in warning.message
    without = text.partition("<connectors>")[0] + text.partition("</cluster-connections>")[2]
    assert samples.read(without).warnings == ()


def test_queues_that_need_one_broker_are_warned_of() -> None:
    """Whether address settings or the queue itself say so; those out of scope and subscriptions are no matter."""
    kept = "<default-exclusive-queue>true</default-exclusive-queue></address-setting>"
    text = FILE.format(
        "<address>eu</address>",
        "<address-settings>"
        f"<address-setting match='eu.#'>{kept}<address-setting match='us.#'>{kept}</address-settings>"
        "<addresses><address name='eu.a'><anycast><queue name='q' max-consumers='1'/><queue name='r'/></anycast>"
        "</address>"
        "<address name='us.a'><anycast><queue name='s' max-consumers='1'/></anycast></address>"
        "<address name='eu.t'><multicast><queue name='t' max-consumers='1'/></multicast></address></addresses>",
    )
    messages = [warning.message for warning in samples.read(text).warnings]

    assert len(messages) == 2
    assert any('match "eu.#": a queue that is exclusive needs one broker' in each for each in messages)
    assert any('queue "q" has max-consumers, and needs one broker' in each for each in messages)


def test_addresses_for_clients_are_those_of_connectors() -> None:
    """Which exist, and which are addresses of a machine."""
    more = connectors(own=OWN, other=OTHER, out="tcp://out.example:443?sslEnabled=true", anywhere="tcp://0.0.0.0:443")
    inside = (
        "<client-connectors><connector-ref>{}</connector-ref><connector-ref>own</connector-ref></client-connectors>"
    )
    good, missing, anywhere = [read(more + cluster(inside.format(name))) for name in ("out", "none", "anywhere")]

    assert good.clusters[0].client_connectors == ("out", "own")
    assert good.check(AcceptorConfig(name="a", port=61616)).problems == []
    assert any('there is no connector "none"' in each for each in missing.problems)
    assert any("clients are told 0.0.0.0:443" in each for each in anywhere.check().problems)
