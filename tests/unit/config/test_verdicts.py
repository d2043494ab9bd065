"""Names that Artemis knows and this broker does not read: an error, or a warning with the reason."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import pytest

from artemis_py.config import check_acceptors
from artemis_py.config.acceptors import CheckedAcceptors
from artemis_py.config.known import (
    ACCEPTOR_PARAMETERS,
    ADDRESS_SETTINGS,
    CLUSTER_ELEMENTS,
    CORE_ELEMENTS,
    DISCOVERY_ELEMENTS,
    DIVERT_ELEMENTS,
)
from artemis_py.config.report import merged
from artemis_py.config.verdicts import (
    ADDRESS_SETTING,
    CLUSTER_CONNECTION,
    CONNECTOR_PARAMETERS,
    CORE,
    DISCOVERY_GROUP,
    ELEMENTS,
    PARAMETERS,
    PERMISSIONS,
    PROTOCOLS,
    Effect,
)
from artemis_py.errors import Problem
from artemis_py.transport.config import ACCEPTOR_OPTIONS, TLS_OPTIONS, AcceptorConfig
from tests.core_harness import make_domain, make_host
from tests.unit.config.samples import SETTING, content, mistakes, read

CLUSTER = "core/cluster-connections/cluster-connection"
DISCOVERY = "core/discovery-groups/discovery-group"
REFUSED = "is not supported by artemis_py"
LOGS = "org.apache.activemq.artemis.core.server.plugin.impl.LoggingActiveMQServerPlugin"
AS_WITHOUT = "has no effect here: as it is written, the broker behaves like this without it"


MESH = (
    "<cluster-user>u</cluster-user><cluster-password>p</cluster-password><connectors>"
    '<connector name="own">tcp://here:61616</connector></connectors><cluster-connections><cluster-connection name="m">'
    "{}<connector-ref>own</connector-ref></cluster-connection></cluster-connections>"
)

ROUTERS = (
    '<connection-routers><connection-router name="r">{}<local-target-filter>x</local-target-filter>'
    "</connection-router></connection-routers>"
)


def in_setting(text: str) -> str:
    """An address setting with this inside."""
    return f'<address-settings><address-setting match="a">{text}</address-setting></address-settings>'


TYPED: Final = ("last-value-queue", "max-sessions")
"""Old names of elements that take no text."""


def warnings(core: str) -> list[str]:
    """What is said about a file that is accepted."""
    return [str(warning) for warning in read(core).warnings]


def checked(*urls: str) -> CheckedAcceptors:
    """Acceptors of these URLs, with the protocols that are installed."""
    inside = "\n".join(f'<acceptor name="a{number}">{url}</acceptor>' for number, url in enumerate(urls))
    managers = [each.load()(make_host(make_domain())) for each in entry_points(group="artemis_py.protocols")]
    return check_acceptors(read(f"<acceptors>{inside}</acceptors>").acceptors, managers)


def test_every_name_of_artemis_is_read_or_has_a_verdict() -> None:
    """artemis-model §6.4, §2.1, §3.2, §6.5; and no verdict is about anything else."""
    parameters = {each.name for each in (*ACCEPTOR_OPTIONS, *TLS_OPTIONS)}
    for entry_point in entry_points(group="artemis_py.protocols"):
        parameters |= {each.name for each in entry_point.load().parameters}

    assert CORE.keys() == CORE_ELEMENTS - content("core").children.keys()
    assert ADDRESS_SETTING.keys() == ADDRESS_SETTINGS - content(SETTING).children.keys()
    assert content("core/diverts/divert").children.keys() >= DIVERT_ELEMENTS
    assert content(CLUSTER).children.keys() | CLUSTER_CONNECTION.keys() >= CLUSTER_ELEMENTS
    assert content(DISCOVERY).children.keys() | DISCOVERY_GROUP.keys() >= DISCOVERY_ELEMENTS
    assert not content(CLUSTER).children.keys() & CLUSTER_CONNECTION.keys()
    assert CONNECTOR_PARAMETERS.keys() <= ACCEPTOR_PARAMETERS
    assert PARAMETERS.keys() == ACCEPTOR_PARAMETERS - parameters


@pytest.mark.parametrize(("parent", "name"), [(parent, name) for parent, names in ELEMENTS.items() for name in names])
def test_an_element_has_its_class(parent: str, name: str) -> None:
    """One message each. Warnings leave nothing of the element in the configuration."""
    core = {
        "core": "{}",
        "address-setting": in_setting("{}"),
        "security-settings": "<security-settings>{}</security-settings>",
        "cluster-connections": "<cluster-connections>{}</cluster-connections>",
        "cluster-connection": MESH,
        "amqp-connection": (
            '<broker-connections><amqp-connection name="c" uri="tcp://h:1">{}<sender queue-name="q"/></amqp-connection>'
            "</broker-connections>"
        ),
        "bridge": (
            '<connectors><connector name="c">tcp://h:1</connector></connectors><bridges><bridge name="b">{}'
            "<queue-name>q</queue-name><static-connectors><connector-ref>c</connector-ref></static-connectors>"
            "</bridge></bridges>"
        ),
        "discovery-group": (
            '<discovery-groups><discovery-group name="g">{}<dns>x</dns></discovery-group></discovery-groups>'
        ),
        "connection-router": ROUTERS.format("{}"),
        "resource-limit-setting": (
            '<resource-limit-settings><resource-limit-setting match="ann">{}</resource-limit-setting>'
            "</resource-limit-settings>"
        ),
        "pool": ROUTERS.format(
            '<policy name="FIRST_ELEMENT"/><pool>{}<cluster-connection>m</cluster-connection></pool>'
        )
        + MESH.format(""),
    }[parent].format(f"<{name}>what Artemis takes</{name}>")
    verdict = ELEMENTS[parent][name]
    text = f"broker.xml:4: {name}: {verdict.effect.value}"

    match verdict.effect:
        case Effect.REFUSED:
            assert mistakes(core) == [f"{text}: {verdict.reason}"]
        case Effect.RENAMED:
            assert warnings(core)[0] == f"{text}; write {verdict.reason}" if name not in TYPED else True
        case _:
            assert f"{text}: {verdict.reason}" in warnings(core)


@pytest.mark.parametrize(
    "core",
    [
        "<federations/>",
        "<ha-policy><primary-only/></ha-policy>",
        "<store><file-store/></store>",
        "<persist-delivery-count-before-delivery>false</persist-delivery-count-before-delivery>",
        "<wild-card-routing-enabled>true</wild-card-routing-enabled>",
        f"<broker-plugins><broker-plugin class-name='{LOGS}'><property key='a'/></broker-plugin></broker-plugins>",
    ],
)
def test_what_is_refused_is_accepted_if_it_asks_for_nothing(core: str) -> None:
    """A file may say what would be so without it."""
    (warning,) = warnings(core)

    assert warning.endswith(AS_WITHOUT)


@pytest.mark.parametrize(
    "core",
    [
        "<federations><federation name='b'/></federations>",
        "<ha-policy><primary-only><scale-down/></primary-only></ha-policy>",
        "<store><database-store/></store>",
        "<persist-delivery-count-before-delivery>true</persist-delivery-count-before-delivery>",
        "<broker-plugins><broker-plugin class-name='com.example.Plugin'/></broker-plugins>",
        "<security-settings><security-setting-plugin class-name='com.example.Plugin'/></security-settings>",
    ],
)
def test_what_would_change_meaning_or_safety_is_an_error(core: str) -> None:
    """Never ignored: its author relies on it."""
    (mistake,) = mistakes(core)

    assert REFUSED in mistake


def test_old_names_are_read_under_their_present_names() -> None:
    """artemis-model §2.1: `last-value-queue`; the value counts."""
    config = read(in_setting("<last-value-queue>true</last-value-queue>"))

    assert config.address_settings["a"].default_last_value_queue is True
    assert [str(each) for each in config.warnings] == [
        "broker.xml:4: last-value-queue: is an old name; write default-last-value-queue"
    ]
    assert mistakes(in_setting("<last-value-queue>yes</last-value-queue>")) == [
        'broker.xml:4: default-last-value-queue: "yes" is neither true nor false; write one of the two in lower case'
    ]


def test_permissions_that_nothing_asks_for_are_left_out() -> None:
    """An example in Artemis' manual has `update`."""
    config = read(
        '<security-settings><security-setting match="a"><permission type="update" roles="r"/>'
        '<permission type="send" roles="s"/></security-setting></security-settings>'
    )

    assert [permission.value for permission in config.security_settings["a"]] == ["send"]
    assert [str(each) for each in config.warnings] == [
        f"broker.xml:4: permission: attribute type: update: has no effect here: {PERMISSIONS['update'].reason}"
    ]


def test_protocols_that_are_not_spoken_are_left_out() -> None:
    """The acceptor of Artemis' `create` names all of them; what is left is opened."""
    found = checked("tcp://h:1?protocols=CORE,AMQP,STOMP,HORNETQ,MQTT,OPENWIRE;useEpoll=true;amqpCredits=7")

    assert not found.problems
    assert [each.message for each in found.warnings] == [
        "parameter protocols: CORE, STOMP or HORNETQ: left out, artemis_py does not speak it",
        f"parameter useEpoll: has no effect here: {PARAMETERS['useEpoll'].reason}",
    ]
    (acceptor,) = found.acceptors
    assert acceptor.protocols == ("AMQP", "MQTT", "OPENWIRE")
    assert acceptor.parameters == {"amqpCredits": "7"}


def test_an_acceptor_without_a_protocol_is_left_out() -> None:
    """Nobody can connect, which is said with the port; its parameters do not matter then."""
    found = checked("tcp://h:61613?protocols=STOMP;stompNonsense=1", "tcp://h:1")

    assert not found.problems
    assert [each.message for each in found.warnings] == [
        "a0 is left out: artemis_py does not speak STOMP, nobody can connect to port 61613"
    ]
    assert [each.name for each in found.acceptors] == ["a1"]
    assert [each.name for each in found.left_out] == ["a0"]


def test_a_broker_that_nobody_could_connect_to_is_an_error() -> None:
    """Of the acceptors of a file one must be left."""
    found = checked("tcp://h:61613?protocols=STOMP", "tcp://h:61614?protocols=CORE")

    assert [str(each) for each in found.problems] == [
        "broker.xml:4: acceptor: no acceptor would be opened; add one that speaks AMQP, MQTT or OPENWIRE"
    ]
    assert mistakes("<acceptors><acceptor name='in-vm'>vm://0</acceptor></acceptors>") == [
        "broker.xml:4: acceptor: no acceptor would be opened; write one such as tcp://127.0.0.1:61616"
    ]
    assert check_acceptors([], []) == CheckedAcceptors([], [], [], [])


def test_an_acceptor_within_the_process_is_left_out() -> None:
    """Java programs that embed Artemis use it."""
    config = read("<acceptors><acceptor name='v'>vm://0</acceptor><acceptor name='t'>tcp://h:1</acceptor></acceptors>")

    assert [each.name for each in config.acceptors] == ["t"]
    assert "is left out: only programs within Artemis' own process" in str(config.warnings[0])


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_has_its_class(name: str) -> None:
    """One message each, and what is not an error is not passed on."""
    found = checked(f"tcp://h:1?{name}=x")
    verdict = PARAMETERS[name]
    told = found.problems if verdict.effect is Effect.REFUSED else found.warnings

    assert [str(each) for each in told] == [
        f"broker.xml:4: acceptor: parameter {name}: {verdict.effect.value}: {verdict.reason}"
    ]
    assert len(found.problems) + len(found.warnings) == 1
    assert all(not each.parameters for each in found.acceptors)


@pytest.mark.parametrize(
    "parameter",
    ["autoStart=true", "proxyProtocolEnabled=false", "keyStoreType=PEM", "verifyHost= false"],
)
def test_a_refused_parameter_may_ask_for_nothing(parameter: str) -> None:
    """What would be so without it."""
    found = checked(f"tcp://h:1?{parameter}")

    assert not found.problems
    assert found.warnings[0].message.endswith(AS_WITHOUT)


def test_a_parameter_of_a_protocol_that_is_not_spoken_has_no_effect() -> None:
    """A broker with one acceptor for each protocol often has them on all."""
    found = checked("tcp://h:1?protocols=MQTT;amqpCredits=x")

    assert not found.problems
    assert [each.message for each in found.warnings] == [
        "parameter amqpCredits: has no effect here: it is for AMQP, which this acceptor does not speak"
    ]


def test_a_parameter_of_a_protocol_that_is_not_installed_has_no_effect() -> None:
    """It is a name of Artemis, not a typing mistake."""
    acceptor = AcceptorConfig(name="a", parameters={"amqpCredits": "5"})
    (warning,) = check_acceptors([acceptor], []).warnings

    assert warning.message == "parameter amqpCredits: has no effect here: no installed protocol reads it"


def test_mechanisms_that_are_missing_are_left_out() -> None:
    """As long as clients have another one."""
    config = read("<acceptors><acceptor name='a'>tcp://h:1?saslMechanisms=GSSAPI,PLAIN</acceptor></acceptors>")

    assert config.acceptors[0].sasl_mechanisms == ("PLAIN",)
    assert "GSSAPI is left out: this broker does not have it" in str(config.warnings[0])


def test_a_parameter_may_be_given_twice_with_one_value() -> None:
    """An example of Artemis does that."""
    config = read("<acceptors><acceptor name='a'>tcp://h:1?backlog=7;backlog=7</acceptor></acceptors>")

    assert config.acceptors[0].backlog == 7
    assert "parameter backlog: is given twice; remove one" in str(config.warnings[0])


def test_the_variables_of_an_artemis_instance_have_their_values(tmp_path: Path) -> None:
    """Its scripts set them; a variable of the environment goes first."""
    folder = tmp_path / "etc"
    core = "<journal-directory>${data.dir:../data}/journal</journal-directory><name>${artemis.instance}</name>"

    assert read(core, folder=folder).journal_directory == f"{tmp_path}/data/journal"
    assert read(core, folder=folder).settings.name == str(tmp_path)
    assert read(core, folder=folder, **{"data.dir": "/else"}).journal_directory == "/else/journal"


def test_the_same_said_of_several_lines_is_one_warning() -> None:
    """A file made for Artemis says much twenty times."""
    problems = [Problem("f", line, "acceptor", "no effect") for line in (9, 3, 3, *range(20, 27))]

    assert merged([*problems, Problem("f", 4, "acceptor", "other")]) == [
        Problem("f", 3, "acceptor", "no effect (also in lines 9, 20, 21, 22, 23 and 3 more)"),
        Problem("f", 4, "acceptor", "other"),
    ]
    assert merged(problems[:2]) == [Problem("f", 3, "acceptor", "no effect (also in line 9)")]


def test_no_protocol_that_is_left_out_is_installed() -> None:
    """Otherwise it would be spoken."""
    assert not PROTOCOLS & {each.name for each in entry_points(group="artemis_py.protocols")}
