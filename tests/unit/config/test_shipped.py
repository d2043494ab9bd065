"""The files in conf/: what a newcomer starts with."""

from pathlib import Path

import pytest
from lxml import etree

from artemis_py.config import AnonymousAccess, BrokerConfig, load_default, parse
from artemis_py.config.reader import shipped_folder
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.settings.address_settings import AddressSettings, ResolvedSettings
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.security.permissions import AccessRules
from tests.shipped_roles import with_roles


def resolve(config: BrokerConfig, address: str) -> ResolvedSettings:
    """What applies to an address."""
    hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(config.settings.wildcards)
    repository = SettingsRepository(hierarchy, config.settings)
    for match, settings in config.address_settings.items():
        repository.add(match, settings)
    return repository.resolve(address)


def test_it_is_valid_and_gives_no_warning() -> None:
    """Whatever the environment says."""
    assert load_default({}).warnings == ()


def test_a_first_amqp_send_finds_a_queue() -> None:
    """artemis-model §1.4: with Artemis' defaults the message would vanish."""
    settings = resolve(load_default({}), "anything")

    assert settings.default_address_routing_type is RoutingType.ANYCAST
    assert settings.default_queue_routing_type is RoutingType.ANYCAST
    assert settings.auto_create_addresses
    assert settings.auto_create_queues


def test_what_was_created_on_first_use_goes_five_minutes_after_the_last() -> None:
    """Also if it was never used otherwise. Artemis' generated file keeps it for ever."""
    settings = resolve(load_default({}), "anything")

    assert (settings.auto_delete_queues, settings.auto_delete_addresses) == (True, True)
    assert (settings.queue_defaults.auto_delete_delay_ms, settings.auto_delete_addresses_delay) == (300_000, 300_000)
    assert settings.auto_delete_queues_skip_usage_check
    assert settings.auto_delete_addresses_skip_usage_check


def test_what_one_user_may_have_created_on_first_use_has_a_limit() -> None:
    """Artemis has none by default."""
    assert load_default({}).login.max_auto_created_per_user == 1_000_000


def test_failed_and_expired_messages_have_a_place() -> None:
    """DLQ and ExpiryQueue are settings, addresses and queues."""
    config = load_default({})
    settings = resolve(config, "anything")

    assert [address.name for address in config.addresses] == [settings.dead_letter_address, settings.expiry_address]
    assert all(address.routing_types == frozenset([RoutingType.ANYCAST]) for address in config.addresses)
    assert [queue.name for address in config.addresses for queue in address.queues] == ["DLQ", "ExpiryQueue"]


def test_it_listens_on_this_machine_only_on_the_well_known_ports() -> None:
    """61616 speaks everything, 5672 AMQP, 1883 MQTT."""
    acceptors = load_default({}).acceptors

    assert [(each.host, each.port, each.protocols) for each in acceptors] == [
        ("127.0.0.1", 61616, ()),
        ("127.0.0.1", 5672, ("AMQP",)),
        ("127.0.0.1", 1883, ("MQTT",)),
    ]


def test_its_ports_can_be_chosen_from_outside() -> None:
    """For tests, containers, and a second broker."""
    ports = {"ARTEMIS_PY_PORT": "0", "ARTEMIS_PY_AMQP_PORT": "1", "ARTEMIS_PY_MQTT_PORT": "2"}

    assert [acceptor.port for acceptor in load_default(ports).acceptors] == [0, 1, 2]


def test_clients_on_this_machine_need_no_name_and_may_do_everything() -> None:
    """And nobody else gets in: there is no user and no default password."""
    config = load_default({})
    (role,) = config.login.anonymous_roles

    assert config.login.anonymous_access is AnonymousAccess.LOOPBACK
    # Nobody is asked for the permissions of management (management-message-rbac).
    others = (Permission.MESH, Permission.VIEW, Permission.EDIT)
    assert config.security_settings["#"] == {each: {role} for each in Permission if each not in others}


def test_roles_for_people_who_share_a_broker_are_there_to_be_switched_on() -> None:
    """In a comment, which says what it replaces; with it in place the file is right."""
    folder = shipped_folder()
    text = with_roles((folder / "broker.xml").read_text(encoding="utf-8"))
    config = parse(text.encode(), "broker.xml", folder, {})
    rules = AccessRules(config.security_settings, config.settings)
    may = {
        role: [name for name in MANAGED if rules.allows(Subject("u", frozenset((role,))), *needed(name))]
        for role in ("monitor", "operator", "admin", "app")
    }

    assert config.warnings == ()
    assert config.settings.management_message_rbac
    assert may == {
        "monitor": ["manage activemq.management", "view mops.broker.getVersion", "view mops.queue.a.b"],
        "operator": [name for name in MANAGED if name != "edit mops.broker.createDivert"],
        "admin": MANAGED,
        "app": [],
    }
    assert not rules.allows(Subject("u", frozenset(("monitor",))), Permission.BROWSE, "orders")


MANAGED = [
    "manage activemq.management",
    "view mops.broker.getVersion",
    "view mops.queue.a.b",
    "browse orders",
    "edit mops.queue.a.b.purge",
    "edit mops.address.a.pause",
    "edit mops.broker.createQueue",
    "edit mops.broker.deleteAddress",
    "edit mops.broker.closeConnectionWithID",
    "edit mops.broker.createDivert",
]


def needed(text: str) -> tuple[Permission, str]:
    """A permission and a name."""
    permission, name = text.split()
    return Permission(permission), name


@pytest.mark.parametrize("name", ["artemis-users.properties", "artemis-roles.properties"])
def test_the_users_and_roles_files_are_empty(name: str) -> None:
    """Instructions only."""
    login = load_default({}).login
    lines = (shipped_folder() / name).read_text().splitlines()

    assert name in (login.users_file, login.roles_file)
    assert all(line.startswith("#") for line in lines)


def test_editors_find_the_schema_beside_it() -> None:
    """The schema location is relative, and all schema files are there."""
    folder = shipped_folder()
    root = etree.parse(str(folder / "broker.xml")).getroot()
    location = root.get("{http://www.w3.org/2001/XMLSchema-instance}schemaLocation").split()

    assert location == ["urn:activemq", "artemis-py.xsd"]
    assert (Path(folder) / location[1]).is_file()
