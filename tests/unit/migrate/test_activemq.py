"""activemq.xml: what each element becomes, by the file that this broker would start with."""

from pathlib import Path

import pytest

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import DiskFullPolicy, FullPolicy, SlowConsumerPolicy, SlowConsumerUnit
from artemis_py.security.authenticator import AnonymousAccess
from tests.migration import connectors, migrate, migrate_broker, policies

CONFIGURER = '<bean class="x.PropertyPlaceholderConfigurer"><property {}></bean>'
WILDCARDS = "virtualTopicConsumerWildcards"


def test_without_any_policy_it_behaves_as_activemq_does(tmp_path: Path) -> None:
    result = migrate_broker(tmp_path)

    assert result.exit_code == 0
    assert result.setting("#", "dead-letter-address") == "ActiveMQ.DLQ"
    assert result.setting("#", "expiry-address") == "ActiveMQ.DLQ"
    assert result.setting("#", "max-delivery-attempts") == -1
    assert result.setting("#", "auto-delete-queues") is False
    assert not result.config.security_enabled


@pytest.mark.parametrize(
    ("attributes", "option", "value"),
    [
        ('brokerName="east"', "name", "east"),
        ('schedulePeriodForDestinationPurge="7000"', "address-queue-scan-period", 7000),
        ('populateJMSXUserID="true"', "populate-validated-user", True),
        ('populateJMSXUserID="false"', "populate-validated-user", False),
    ],
)
def test_attributes_of_the_broker(tmp_path: Path, attributes: str, option: str, value: object) -> None:
    assert migrate_broker(tmp_path, attributes=attributes).option(option) == value


@pytest.mark.parametrize(
    ("content", "attributes"),
    [("", 'persistent="false"'), ("<persistenceAdapter><memoryPersistenceAdapter/></persistenceAdapter>", "")],
)
def test_a_broker_in_memory_stays_one(tmp_path: Path, content: str, attributes: str) -> None:
    assert migrate_broker(tmp_path, content, attributes).config.persistence_enabled is False


def test_a_store_without_syncs_stays_one(tmp_path: Path) -> None:
    content = '<persistenceAdapter><kahaDB enableJournalDiskSyncs="false" directory="x"/></persistenceAdapter>'
    result = migrate_broker(tmp_path, content)

    assert result.config.journal_sync_transactional is False
    assert result.config.journal_sync_non_transactional is False


# --- connectors ---


@pytest.mark.parametrize(
    ("uri", "protocols", "host", "port"),
    [
        ("tcp://0.0.0.0:61617", {"OPENWIRE"}, "0.0.0.0", 61617),
        ("nio://localhost", {"OPENWIRE"}, "localhost", 61616),
        ("amqp+nio://[::1]:5000", {"AMQP"}, "::1", 5000),
        ("mqtt://10.0.0.1", {"MQTT"}, "10.0.0.1", 1883),
        ("ws://0.0.0.0:61614", {"MQTT"}, "0.0.0.0", 61614),
        ("auto+nio://0.0.0.0:5671", set(), "0.0.0.0", 5671),
    ],
)
def test_a_connector_becomes_an_acceptor(tmp_path: Path, uri: str, protocols: set[str], host: str, port: int) -> None:
    (acceptor,) = migrate_broker(tmp_path, connectors(uri)).config.acceptors

    assert (set(acceptor.protocols), acceptor.host, acceptor.port) == (protocols, host, port)


def test_parameters_of_a_uri(tmp_path: Path) -> None:
    uri = (
        "tcp://0.0.0.0:1?maximumConnections=7&amp;wireFormat.maxFrameSize=5000000&amp;transport.tcpNoDelay=false"
        "&amp;wireFormat.maxInactivityDuration=60000&amp;transport.soTimeout=1&amp;whatever=2"
    )
    result = migrate_broker(tmp_path, connectors(uri))
    (acceptor,) = result.config.acceptors

    assert acceptor.connections_allowed == 7
    assert acceptor.tcp_no_delay is False
    assert acceptor.parameters["openwireMaxFrameSize"] == "5000000"
    assert acceptor.parameters["maxInactivityDuration"] == "60000"
    assert result.outcome("uri.soTimeout").startswith("not needed: ")
    assert result.outcome("uri.whatever").startswith("dropped: ")
    assert result.exit_code == 1


def test_the_frame_size_of_each_protocol(tmp_path: Path) -> None:
    uris = [
        f"{scheme}://h:{port}?wireFormat.maxFrameSize=9999999999"
        for port, scheme in enumerate(("tcp", "amqp", "mqtt"), 1)
    ]
    sizes = [each.parameters for each in migrate_broker(tmp_path, connectors(*uris)).config.acceptors]

    assert sizes[0]["openwireMaxFrameSize"] == str(2**31 - 1)
    assert sizes[1]["amqpMaxMessageSize"] == str(2**31 - 1)
    assert sizes[2]["maximumPacketSize"] == "268435460"


def test_a_value_that_this_broker_refuses_is_named_and_left_out(tmp_path: Path) -> None:
    """Whatever is in the old file, the new one passes the check."""
    result = migrate_broker(tmp_path, connectors("tcp://h:1?wireFormat.maxFrameSize=1"))

    assert "openwireMaxFrameSize" not in result.config.acceptors[0].parameters
    assert "too small" in result.report


@pytest.mark.parametrize("uri", ["stomp://0.0.0.0:61613", "udp://h:1", "nonsense", "tcp://h:99999", "tcp://h:x"])
def test_a_connector_that_cannot_be_is_dropped(tmp_path: Path, uri: str) -> None:
    result = migrate_broker(tmp_path, connectors(uri))

    assert result.config.acceptors == ()
    assert result.outcome("transportConnector").startswith("dropped: ")


def test_a_connector_within_java_is_not_missed(tmp_path: Path) -> None:
    assert migrate_broker(tmp_path, connectors("vm://localhost")).exit_code == 0


def test_the_second_connector_on_a_port_is_dropped(tmp_path: Path) -> None:
    result = migrate_broker(tmp_path, connectors("tcp://h:5", "amqp://h:5"))

    assert [each.name for each in result.config.acceptors] == ["c1"]
    assert "port 5 is taken by c1" in result.report


def test_a_connector_with_tls_and_no_keys_is_not_opened(tmp_path: Path) -> None:
    result = migrate_broker(tmp_path, connectors("ssl://0.0.0.0:61617"))

    assert result.config.acceptors == ()
    assert result.exit_code == 1


def test_link_stealing_and_advisories(tmp_path: Path) -> None:
    content = (
        '<transportConnectors><transportConnector name="a" uri="auto://h:1" allowLinkStealing="true"/>'
        '<transportConnector name="b" uri="mqtt://h:2" allowLinkStealing="false"/></transportConnectors>'
    )
    first, second = migrate_broker(tmp_path, content, 'advisorySupport="false"').config.acceptors

    assert first.parameters["openwireAllowLinkStealing"] == "true"
    assert first.parameters["supportAdvisory"] == "false"
    assert second.parameters["allowLinkStealing"] == "false"


def test_what_clients_are_told_of_other_brokers(tmp_path: Path) -> None:
    result = migrate_broker(
        tmp_path,
        '<transportConnectors><transportConnector name="a" uri="tcp://h:1" updateClusterClients="false"'
        ' rebalanceClusterClients="true"/><transportConnector name="b" uri="amqp://h:2"'
        ' updateClusterClientsOnRemove="true"/></transportConnectors>',
    )
    first, second = result.config.acceptors

    assert result.exit_code == 0
    assert first.parameters["updateClusterClients"] == "false"
    assert first.parameters["rebalanceClusterClients"] == "true"
    assert "updateClusterClientsOnRemove" not in first.parameters
    assert not any("Cluster" in name for name in second.parameters)


# --- policies ---


def test_limits_of_a_destination(tmp_path: Path) -> None:
    cursor = "<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>"
    waits = f'<policyEntry queue="w.>" memoryLimit="2 mb">{cursor}</policyEntry>'
    pages = '<policyEntry queue="p.*" memoryLimit="1kb" producerFlowControl="true"/>'
    result = migrate_broker(tmp_path, policies(waits, pages))

    assert result.setting("w.#", "max-size-bytes") == 2 * 1024 * 1024
    assert result.setting("w.#", "address-full-policy") is FullPolicy.BLOCK
    assert result.setting("p.*", "max-size-bytes") == 1024
    assert result.setting("p.*", "address-full-policy") is FullPolicy.PAGE


@pytest.mark.parametrize(
    ("attribute", "setting", "value"),
    [
        ('consumersBeforeDispatchStarts="3"', "default-consumers-before-dispatch", 3),
        ('timeBeforeDispatchStarts="500"', "default-delay-before-dispatch", 500),
        ('allConsumersExclusiveByDefault="true"', "default-exclusive-queue", True),
        ('messageGroupMapFactoryType="bucket?bucketCount=64"', "default-group-buckets", 64),
    ],
)
def test_dispatch_of_a_destination(tmp_path: Path, attribute: str, setting: str, value: object) -> None:
    result = migrate_broker(tmp_path, policies(f'<policyEntry queue="a" {attribute}/>'))

    assert result.setting("a", setting) == value


def test_unused_destinations_are_deleted_only_if_activemq_would(tmp_path: Path) -> None:
    entry = policies('<policyEntry queue="a" gcInactiveDestinations="true" inactiveTimeoutBeforeGC="30000"/>')
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    idle = migrate_broker(tmp_path / "one", entry)
    purging = migrate_broker(tmp_path / "two", entry, 'schedulePeriodForDestinationPurge="10000"')

    assert idle.setting("a", "auto-delete-queues") is None
    assert "kept" not in idle.outcome("policyEntry.gcInactiveDestinations")
    assert idle.outcome("policyEntry.inactiveTimeoutBeforeGC").startswith("not needed: ")
    assert purging.setting("a", "auto-delete-queues") is True
    assert purging.setting("a", "auto-delete-queues-delay") == 30000
    assert purging.option("address-queue-scan-period") == 10000


def test_the_shortest_expiry_period_counts(tmp_path: Path) -> None:
    entries = [
        f'<policyEntry queue="{name}" expireMessagesPeriod="{period}"/>'
        for name, period in (("a", 0), ("b", 9000), ("c", 5000))
    ]

    assert migrate_broker(tmp_path, policies(*entries)).option("message-expiry-scan-period") == 5000


def test_dead_letters_of_several_kinds(tmp_path: Path) -> None:
    queue = '<deadLetterQueue><queue physicalName="dead"/></deadLetterQueue>'
    shared = f'<sharedDeadLetterStrategy processExpired="false">{queue}</sharedDeadLetterStrategy>'
    own = '<individualDeadLetterStrategy queuePrefix="DLQ." queueSuffix=".dlq"/>'
    entries = [
        f'<policyEntry queue="{name}"><deadLetterStrategy>{strategy}</deadLetterStrategy></policyEntry>'
        for name, strategy in (("shared", shared), ("own.>", own), ("none", "<discarding/>"))
    ]
    result = migrate_broker(tmp_path, policies(*entries))

    assert result.setting("shared", "dead-letter-address") == "dead"
    assert not result.setting("shared", "expiry-address")
    assert {each.name for each in result.config.addresses} >= {"dead", "ActiveMQ.DLQ"}
    assert result.setting("own.#", "auto-create-dead-letter-resources") is True
    assert result.setting("own.#", "dead-letter-queue-prefix") == "DLQ."
    assert result.setting("own.#", "dead-letter-queue-suffix") == ".dlq"
    assert not result.setting("none", "dead-letter-address")


def test_a_narrower_entry_takes_nothing_from_a_wider_one(tmp_path: Path) -> None:
    """ActiveMQ uses one entry; here those of wider matches would be added."""
    wide = '<policyEntry queue=">" memoryLimit="1mb" allConsumersExclusiveByDefault="true"/>'
    result = migrate_broker(
        tmp_path, policies(wide, '<policyEntry queue="a.>" memoryLimit="2mb"/>', '<policyEntry queue="b"/>')
    )

    assert result.setting("a.#", "max-size-bytes") == 2 * 1024 * 1024
    assert result.setting("b", "max-size-bytes") == -1
    assert result.setting("b", "default-exclusive-queue") is False


def test_a_queue_counts_before_a_topic_of_the_same_name(tmp_path: Path) -> None:
    entries = ['<policyEntry queue=">" memoryLimit="1mb"/>', '<policyEntry topic=">" memoryLimit="2mb"/>']

    assert migrate_broker(tmp_path, policies(*entries)).setting("#", "max-size-bytes") == 1024 * 1024


def test_recovery_of_subscriptions(tmp_path: Path) -> None:
    entries = [
        f'<policyEntry topic="{name}"><subscriptionRecoveryPolicy>{policy}</subscriptionRecoveryPolicy></policyEntry>'
        for name, policy in (
            ("a", '<fixedCountSubscriptionRecoveryPolicy maximumSize="9"/>'),
            ("b", "<lastImageSubscriptionRecoveryPolicy/>"),
            ("c", '<timedSubscriptionRecoveryPolicy recoverDuration="9"/>'),
        )
    ]
    result = migrate_broker(tmp_path, policies(*entries))

    assert result.setting("a", "retroactive-message-count") == 9
    assert result.setting("b", "retroactive-message-count") == 1
    assert result.outcome("timedSubscriptionRecoveryPolicy").startswith("dropped: ")


def test_strategies_for_slow_consumers(tmp_path: Path) -> None:
    """Both end a consumer that has messages and settles none for a time: one message is demanded in it."""
    entries = [
        f'<policyEntry queue="{name}"><slowConsumerStrategy>{strategy}</slowConsumerStrategy></policyEntry>'
        for name, strategy in (
            ("a", "<abortSlowConsumerStrategy/>"),
            ("b", '<abortSlowAckConsumerStrategy maxTimeSinceLastAck="600000" abortConnection="true"/>'),
            ("c", '<abortSlowConsumerStrategy maxSlowDuration="-1" maxSlowCount="5"/>'),
        )
    ]
    result = migrate_broker(tmp_path, policies(*entries))

    assert result.setting("a", "slow-consumer-policy") is SlowConsumerPolicy.KILL
    assert result.setting("a", "slow-consumer-threshold-measurement-unit") is SlowConsumerUnit.MESSAGES_PER_DAY
    for name, patience_s, period_s in (("a", 30, 30), ("b", 600, 60)):
        assert result.setting(name, "slow-consumer-threshold") == 86_400 // patience_s
        assert result.setting(name, "slow-consumer-check-period") == period_s
    assert result.setting("c", "slow-consumer-threshold") is None
    assert result.outcome("abortSlowAckConsumerStrategy.abortConnection").startswith("dropped: ")


# --- virtual destinations ---


def test_virtual_topics_are_there_by_default(tmp_path: Path) -> None:
    (acceptor,) = migrate_broker(tmp_path, connectors("tcp://h:1")).config.acceptors

    assert acceptor.parameters[WILDCARDS] == "Consumer.*.VirtualTopic.>;2"


def test_virtual_topics_can_be_off(tmp_path: Path) -> None:
    (acceptor,) = migrate_broker(tmp_path, connectors("tcp://h:1"), 'useVirtualTopics="false"').config.acceptors

    assert WILDCARDS not in acceptor.parameters


def test_own_virtual_topics(tmp_path: Path) -> None:
    content = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        '<virtualTopic name=">" prefix="VTC.*." selectorAware="true"/><virtualTopic name="x.>" prefix="" postfix=".c"/>'
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    result = migrate_broker(tmp_path, content + connectors("tcp://h:1"))

    assert result.config.acceptors[0].parameters[WILDCARDS] == "VTC.*.>;2;selectorAware=true"
    assert "has a postfix" in result.report


def test_composite_destinations_become_diverts(tmp_path: Path) -> None:
    content = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        '<compositeQueue name="in" forwardOnly="false"><forwardTo><queue physicalName="q"/><topic physicalName="t"/>'
        '<filteredDestination selector="a &lt; 5" queue="f"/></forwardTo></compositeQueue>'
        '<compositeTopic name="news"><forwardTo><queue physicalName="archive"/></forwardTo></compositeTopic>'
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    result = migrate_broker(tmp_path, content)
    found = [(each.address, each.forwarding_address, each.exclusive) for each in result.config.diverts]
    filters = [each.filter for each in result.config.diverts]
    declared = {each.name: each for each in result.config.addresses}

    assert found == [("in", "q", False), ("in", "t", False), ("in", "f", False), ("news", "archive", True)]
    assert filters == [None, None, "a < 5", None]
    assert [queue.name for queue in declared["archive"].queues] == ["archive"]
    assert declared["t"].routing_types == {RoutingType.MULTICAST}
    assert result.exit_code == 0


def test_a_divert_with_a_wrong_selector_is_left_out(tmp_path: Path) -> None:
    """Without the selector it would take every message."""
    content = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        '<compositeQueue name="in"><forwardTo><filteredDestination selector="a LIKE" queue="f"/></forwardTo>'
        "</compositeQueue></virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    result = migrate_broker(tmp_path, content)

    assert result.config.diverts == ()
    assert "this broker refuses divert" in result.report
    assert result.exit_code == 1


def test_destinations_are_declared(tmp_path: Path) -> None:
    content = '<destinations><queue physicalName="orders"/><topic physicalName="news"/></destinations>'
    declared = {each.name: each for each in migrate_broker(tmp_path, content).config.addresses}

    assert [queue.name for queue in declared["orders"].queues] == ["orders"]
    assert declared["news"].routing_types == {RoutingType.MULTICAST}


# --- limits of the broker ---


def test_system_usage(tmp_path: Path) -> None:
    content = (
        '<systemUsage><systemUsage sendFailIfNoSpace="true"><memoryUsage><memoryUsage limit="64 mb"/></memoryUsage>'
        '<storeUsage><storeUsage percentLimit="70"/></storeUsage><tempUsage><tempUsage limit="1 gb"/></tempUsage>'
        "</systemUsage></systemUsage>"
    )
    result = migrate_broker(tmp_path, content)

    assert result.option("global-max-size") == 64 * 1024 * 1024
    assert result.option("max-disk-usage") == 70
    assert result.setting("#", "disk-full-policy") is DiskFullPolicy.FAIL


# --- plugins ---


@pytest.mark.parametrize(("attributes", "expected"), [('checkPeriod="3000"', 3000), ('checkPeriod="0"', -1), ("", -1)])
def test_a_file_that_was_watched_stays_watched(tmp_path: Path, attributes: str, expected: int) -> None:
    result = migrate_broker(tmp_path, f"<plugins><runtimeConfigurationPlugin {attributes}/></plugins>")

    assert result.option("configuration-file-refresh-period") == expected


USERS = (
    "<simpleAuthenticationPlugin {attributes}><users>"
    '<authenticationUser username="ann" password="sesame" groups="ops,users"/>'
    '<authenticationUser username="bob" password="${{bobs}}" groups="users"/></users></simpleAuthenticationPlugin>'
)


def test_users_of_the_simple_plugin(tmp_path: Path) -> None:
    plugins = f"<plugins>{USERS.format(attributes='')}</plugins>"
    result = migrate_broker(tmp_path, plugins, "", "", "-D", "bobs=swordfish")

    assert result.users.verify("ann", "sesame")
    assert result.users.verify("bob", "swordfish")
    assert result.users.subject("ann").roles == {"ops", "users"}
    assert result.config.login.anonymous_access is AnonymousAccess.NOWHERE
    assert result.config.security_settings["#"][Permission.SEND] == {"ops", "users"}


def test_passwords_are_nowhere_in_the_result(tmp_path: Path) -> None:
    (tmp_path / "secret.properties").write_text("bobs=swordfish\n")
    beans = CONFIGURER.format('name="locations"><value>file:secret.properties</value></property')
    result = migrate_broker(tmp_path, f"<plugins>{USERS.format(attributes='')}</plugins>", "", beans)
    written = "".join(file.read_text() for file in (result.folder / "etc").iterdir())

    assert result.users.verify("bob", "swordfish")
    assert "swordfish" not in written
    assert "sesame" not in written
    assert (result.folder / "etc" / "artemis-users.properties").stat().st_mode & 0o077 == 0


def test_a_password_without_a_value_leaves_the_user_without_one(tmp_path: Path) -> None:
    result = migrate_broker(tmp_path, f"<plugins>{USERS.format(attributes='')}</plugins>")

    assert not result.users.knows("bob")
    assert "${bobs} has no value" in result.report
    assert result.exit_code == 1


def test_guests_of_the_simple_plugin(tmp_path: Path) -> None:
    users = USERS.format(attributes='anonymousAccessAllowed="true" anonymousGroup="visitors"')
    login = migrate_broker(tmp_path, f"<plugins>{users}</plugins>").config.login

    assert (login.anonymous_access, login.anonymous_roles) == (AnonymousAccess.EVERYWHERE, ("visitors",))


def test_users_of_jaas(tmp_path: Path) -> None:
    (tmp_path / "login.config").write_text(
        "/* { not this }; */\nother { x.GuestLoginModule required; };\nactivemq {\n"
        "  org.apache.activemq.jaas.PropertiesLoginModule required\n"
        '    org.apache.activemq.jaas.properties.user="users.properties"\n'
        '    org.apache.activemq.jaas.properties.group="groups.properties";\n};\n'
    )
    (tmp_path / "users.properties").write_text("ann=sesame\nbob=ENC(xyz)\n")
    (tmp_path / "groups.properties").write_text("ops=ann,bob\n")
    result = migrate_broker(tmp_path, '<plugins><jaasAuthenticationPlugin configuration="activemq"/></plugins>')

    assert result.users.verify("ann", "sesame")
    assert not result.users.knows("bob")
    assert result.users.subject("ann").roles == {"ops"}
    assert "users.properties:2: bob: dropped: " in result.report


def test_guests_of_jaas(tmp_path: Path) -> None:
    (tmp_path / "login.config").write_text(
        'activemq { x.GuestLoginModule sufficient org.apache.activemq.jaas.guest.group="visitors"; };'
    )
    login = migrate_broker(tmp_path, "<plugins><jaasAuthenticationPlugin/></plugins>").config.login

    assert login.anonymous_roles == ("visitors",)


@pytest.mark.parametrize(
    "plugin",
    [
        "<jaasAuthenticationPlugin/>",
        "<jaasCertificateAuthenticationPlugin/>",
        '<bean xmlns="" class="com.example.Plugin"/>',
        '<bean xmlns="" class="org.apache.activemq.shiro.ShiroSecurity"/>',
        '<ref bean="plugin"/>',
        "<authorizationPlugin><map><cachedLDAPAuthorizationMap/></map></authorizationPlugin>",
    ],
)
def test_a_guard_that_cannot_be_read_lets_nobody_in(tmp_path: Path, plugin: str) -> None:
    result = migrate_broker(tmp_path, f"<plugins>{plugin}</plugins>")
    granted = {
        role for grants in result.config.security_settings.values() for roles in grants.values() for role in roles
    }

    assert result.config.security_enabled
    assert granted == set()
    assert result.exit_code == 1


def test_plugins_by_reference_let_nobody_in(tmp_path: Path) -> None:
    result = migrate_broker(tmp_path, "", 'plugins="#guards"')

    assert result.config.security_enabled
    assert result.config.login.anonymous_access is AnonymousAccess.NOWHERE


def test_code_of_activemq_that_guards_nothing_changes_nothing(tmp_path: Path) -> None:
    plugin = '<bean xmlns="" class="org.apache.activemq.plugin.StatisticsBrokerPlugin"/>'

    assert not migrate_broker(tmp_path, f"<plugins>{plugin}</plugins>").config.security_enabled


ENTRIES = (
    "<plugins>"
    + USERS.format(attributes="").replace("${bobs}", "x")
    + "<authorizationPlugin><map><authorizationMap><authorizationEntries>"
    '<authorizationEntry queue=">" read="ops" write="ops" admin="ops"/>'
    '<authorizationEntry queue="jobs.>" read="users" write="*"/>'
    '<authorizationEntry topic="news.>" read="users" write="users" admin="users"/></authorizationEntries>'
    "{temporary}</authorizationMap></map></authorizationPlugin></plugins>"
)


def test_permissions_are_those_of_all_entries_that_match(tmp_path: Path) -> None:
    result = migrate_broker(tmp_path, ENTRIES.format(temporary=""))
    jobs = result.config.security_settings["jobs.#"]

    assert jobs[Permission.CONSUME] == {"ops", "users"}
    assert jobs[Permission.SEND] == {"ops", "users"}
    assert jobs[Permission.CREATE_ADDRESS] == {"ops"}
    assert jobs[Permission.MANAGE] == {"ops"}
    assert result.config.security_settings["news.#"][Permission.CREATE_NON_DURABLE_QUEUE] == {"users"}


def test_permissions_of_temporary_destinations(tmp_path: Path) -> None:
    temporary = (
        "<tempDestinationAuthorizationEntry>"
        "<tempDestinationAuthorizationEntry read='users' write='users' admin='users'/>"
        "</tempDestinationAuthorizationEntry>"
    )
    result = migrate_broker(tmp_path, ENTRIES.format(temporary=temporary))

    assert result.option("uuid-namespace") == "temporary"
    assert result.config.security_settings["temporary.#"][Permission.CREATE_NON_DURABLE_QUEUE] == {"ops", "users"}
    assert "which these roles do not have: users" in result.report


def test_time_stamps_and_redelivery(tmp_path: Path) -> None:
    plugins = (
        '<plugins><timeStampingBrokerPlugin zeroExpirationOverride="1000" ttlCeiling="60000"/><redeliveryPlugin>'
        "<redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
        '<redeliveryPolicy queue="a.>" maximumRedeliveries="4" initialRedeliveryDelay="100" redeliveryDelay="200" '
        'useExponentialBackOff="true" backOffMultiplier="3.0" maximumRedeliveryDelay="5000"/></redeliveryPolicyEntries>'
        '<defaultEntry><redeliveryPolicy maximumRedeliveries="-1"/></defaultEntry>'
        "</redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin></plugins>"
    )
    result = migrate_broker(tmp_path, plugins)

    assert (result.setting("#", "expiry-delay"), result.setting("#", "max-expiry-delay")) == (1000, 60000)
    assert result.setting("a.#", "max-delivery-attempts") == 5
    assert result.setting("a.#", "redelivery-delay") == 100
    assert result.setting("a.#", "redelivery-delay-multiplier") == 3.0
    assert result.setting("a.#", "max-redelivery-delay") == 5000
    assert result.setting("#", "max-delivery-attempts") == -1


def test_discarded_dead_letters(tmp_path: Path) -> None:
    result = migrate_broker(tmp_path, '<plugins><discardingDLQBrokerPlugin dropAll="true"/></plugins>')

    assert not result.setting("#", "dead-letter-address")


# --- the file ---


def test_networks_and_code_are_named(tmp_path: Path) -> None:
    content = (
        '<networkConnectors><networkConnector uri="static:(tcp://b:1)"/></networkConnectors>'
        '<plugins><statisticsBrokerPlugin/></plugins><services><bean xmlns="" class="com.example.Thing"/></services>'
        "<somethingNew/>"
    )
    result = migrate_broker(tmp_path, content)

    for element in ("networkConnectors", "statisticsBrokerPlugin", "services", "somethingNew"):
        assert result.outcome(element).startswith("dropped: ")
    assert result.exit_code == 1


def test_every_attribute_has_a_finding(tmp_path: Path) -> None:
    content = policies('<policyEntry queue="a" lazyDispatch="true" queuePrefetch="1" newest="1"/>')
    result = migrate_broker(tmp_path, content, 'useJmx="true" other="1"')
    where = str(tmp_path / "activemq.xml")

    assert f"{where}:5: policyEntry.queuePrefetch: dropped: is for the client to say" in result.report
    assert result.outcome("policyEntry.lazyDispatch").startswith("not needed: ")
    assert result.outcome("policyEntry.newest") == "dropped: is not known to this migration"
    assert result.outcome("broker.useJmx").startswith("not needed: ")
    assert result.outcome("broker.other") == "dropped: is not known to this migration"


def test_values_of_a_file_and_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "ports.properties").write_text("port: 7001\n")
    beans = CONFIGURER.format('name="location" value="file:${activemq.conf}/ports.properties"/')
    result = migrate_broker(
        tmp_path,
        connectors("tcp://${host}:${port}", "mqtt://h:${missing}"),
        'brokerName="${name:it}"',
        beans,
        "-D",
        "host=inside",
    )

    assert [(each.host, each.port) for each in result.config.acceptors] == [("inside", 7001)]
    assert result.config.settings.name == "it"
    assert "${missing} has no value; give it one with -D missing=VALUE" in result.report


def test_a_relative_path_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in the file are relative to its folder, not to that of the command."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "own.properties").write_text("where=here\n")
    beans = CONFIGURER.format('name="location" value="file:${activemq.conf}/own.properties"/')
    migrate_broker(tmp_path / "conf", "", 'brokerName="${where}"', beans)
    monkeypatch.chdir(tmp_path)

    assert migrate(Path("conf"), tmp_path / "new").option("name") == "here"


def test_beans_of_the_console_and_of_databases_are_not_missed(tmp_path: Path) -> None:
    beans = '<bean class="io.fabric8.Log4jLogQuery"/><bean class="org.apache.commons.dbcp.BasicDataSource"/>'

    assert migrate_broker(tmp_path, beans=beans).exit_code == 0
    (tmp_path / "other").mkdir()
    assert migrate_broker(tmp_path / "other", beans='<bean class="com.example.Watcher"/>').exit_code == 1


def test_a_folder_is_searched(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    migrate_broker(tmp_path / "conf", "", 'brokerName="west"')

    assert migrate(tmp_path, tmp_path / "new").config.settings.name == "west"
