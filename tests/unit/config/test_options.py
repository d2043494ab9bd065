"""Every option of every table reaches the field it is declared for."""

from pathlib import Path

import pytest

from artemis_py.config import AnonymousAccess
from artemis_py.config.broker_config import LOGIN_OPTIONS, MAIN_OPTIONS, WILDCARD_OPTIONS
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS
from artemis_py.core.settings.broker_settings import BROKER_OPTIONS
from artemis_py.core.settings.declaration import Option
from artemis_py.core.settings.queue_config import QUEUE_OPTIONS
from tests.unit.config.samples import other_value, read

CHILDREN_OF_QUEUE = ("durable", "user")
# Is in every sample; the default is in test_mistakes.
SETTABLE = [option for option in MAIN_OPTIONS if option.name != "persistence-enabled"]


def named(option: Option) -> str:
    """For the names of the tests."""
    return option.name


@pytest.mark.parametrize("option", ADDRESS_SETTINGS, ids=named)
def test_an_address_setting_reaches_its_field(option: Option) -> None:
    """artemis-model §2.1."""
    text, value = other_value(option)

    config = read(
        f'<address-settings><address-setting match="a.#"><{option.name}> {text}\n</{option.name}>'
        "</address-setting></address-settings>"
    )

    settings = config.address_settings["a.#"]
    assert getattr(settings, option.attribute) == value
    assert value != option.default
    others = [other.attribute for other in ADDRESS_SETTINGS if other is not option]
    assert all(getattr(settings, name) is None for name in others)


@pytest.mark.parametrize("option", BROKER_OPTIONS, ids=named)
def test_a_core_option_reaches_its_field(option: Option) -> None:
    """artemis-model §6.4."""
    text, value = other_value(option)

    config = read(f"<{option.name}>{text}</{option.name}>")

    assert getattr(config.settings, option.attribute) == value != option.default


@pytest.mark.parametrize("option", SETTABLE, ids=named)
def test_a_broker_option_reaches_its_field(option: Option) -> None:
    """artemis-model §6.4."""
    text, value = other_value(option)

    config = read(f"<{option.name}>{text}</{option.name}>")

    assert getattr(config, option.attribute) == value != option.default


@pytest.mark.parametrize("option", LOGIN_OPTIONS, ids=named)
def test_a_login_option_reaches_its_field(option: Option) -> None:
    """The element that Artemis does not have."""
    text, value = other_value(option)

    config = read(after=f'<login xmlns="urn:artemis-py"><{option.name}>{text}</{option.name}></login>')

    assert getattr(config.login, option.attribute) == value != option.default


@pytest.mark.parametrize("option", QUEUE_OPTIONS, ids=named)
def test_a_queue_attribute_reaches_its_field(option: Option) -> None:
    """artemis-model §2.2, XML syntax."""
    text, value = other_value(option)
    attribute, child = f' {option.name}="{text}"', ""
    if option.name in CHILDREN_OF_QUEUE:
        attribute, child = "", f"<{option.name}>{text}</{option.name}>"

    config = read(
        f'<addresses><address name="a"><anycast><queue name="q"{attribute}>{child}</queue></anycast></address>'
        "</addresses>"
    )

    assert getattr(config.addresses[0].queues[0], option.attribute) == value != option.default


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("<delimiter>/</delimiter>", WildcardSyntax(delimiter="/")),
        ("<any-words>></any-words>", WildcardSyntax(any_words=">")),
        ("<single-word>+</single-word>", WildcardSyntax(single_word="+")),
        ("<routing-enabled>false</routing-enabled>", WildcardSyntax(routing_enabled=False)),
        ("<enabled>false</enabled>", WildcardSyntax(routing_enabled=False)),
    ],
)
def test_the_wildcard_syntax_can_be_set(element: str, expected: WildcardSyntax) -> None:
    """artemis-model §1.7; `enabled` is Artemis' alias."""
    assert read(f"<wildcard-addresses>{element}</wildcard-addresses>").settings.wildcards == expected


def test_every_wildcard_option_has_a_test() -> None:
    """The test before names them one by one."""
    names = {option.name for option in WILDCARD_OPTIONS}

    assert names == {"delimiter", "any-words", "single-word", "routing-enabled", "enabled"}


def test_a_queue_has_its_address_routing_type_and_filter() -> None:
    """Where an element stands says as much as what it contains."""
    config = read(
        """<addresses>
        <address name="a">
          <anycast><queue name="q"><filter string="color = 'red'"/></queue></anycast>
          <multicast><queue name="r"/></multicast>
        </address>
        <address name="b"><multicast/></address>
        </addresses>"""
    )

    first, second = config.addresses
    q, r = first.queues
    assert (first.name, first.routing_types) == ("a", frozenset(RoutingType))
    assert (second.name, second.routing_types, second.queues) == ("b", frozenset([RoutingType.MULTICAST]), ())
    assert (q.name, q.address, q.routing_type, q.filter) == ("q", "a", RoutingType.ANYCAST, "color = 'red'")
    assert (r.name, r.address, r.routing_type, r.filter) == ("r", "a", RoutingType.MULTICAST, None)


def test_queues_of_the_file_ignore_the_default_for_purging_and_are_never_reaped() -> None:
    """artemis-model §2.2, XML trap; artemis-model §9.2 row 10. All other attributes are left to the address'
    defaults.
    """
    (address,) = read(
        '<addresses><address name="a"><anycast><queue name="q"/></anycast></address></addresses>'
    ).addresses
    (queue,) = address.queues

    assert queue.purge_on_no_consumers is False
    assert queue.configuration_managed is True
    assert (queue.max_consumers, queue.exclusive, queue.consumers_before_dispatch) == (None, None, None)


def test_an_empty_dead_letter_address_is_a_value() -> None:
    """It takes back what a broader match has set."""
    config = read(
        '<address-settings><address-setting match="a"><dead-letter-address/></address-setting></address-settings>'
    )

    assert config.address_settings["a"].dead_letter_address == ""


def test_permissions_are_read_by_match_with_their_aliases() -> None:
    """artemis-model §6.3; a permission may be spread over several elements."""
    config = read(
        """<security-settings><security-setting match="orders.#">
        <permission type="send" roles="app, ops"/><permission type="send" roles="boss"/>
        <permission type="createTempQueue" roles="app"/><permission type="deleteTempQueue" roles=""/>
        </security-setting></security-settings>"""
    )

    assert config.security_settings == {
        "orders.#": {
            Permission.SEND: {"app", "ops", "boss"},
            Permission.CREATE_NON_DURABLE_QUEUE: {"app"},
            Permission.DELETE_NON_DURABLE_QUEUE: frozenset(),
        }
    }


@pytest.mark.parametrize("permission", Permission)
def test_every_permission_can_be_granted(permission: Permission) -> None:
    """The schema and the core list the same names."""
    config = read(
        f'<security-settings><security-setting match="#"><permission type="{permission.value}" roles="r"/>'
        "</security-setting></security-settings>"
    )

    assert config.security_settings["#"] == {permission: {"r"}}


def test_a_mapped_role_has_what_its_target_has_and_the_target_keeps_it() -> None:
    """artemis-model §6.3: mapping adds roles, it takes none away; its place in the file does not matter."""
    config = read(
        """<security-settings>
        <security-setting match="#"><permission type="send" roles="ops"/><permission type="consume" roles="x"/>
        </security-setting>
        <role-mapping from="cn=admins" to="ops, dev"/>
        </security-settings>"""
    )

    granted = config.security_settings["#"]
    assert granted == {Permission.SEND: {"ops", "cn=admins"}, Permission.CONSUME: {"x"}}


def test_what_is_not_in_the_file_has_its_default() -> None:
    """An almost empty file is a configuration."""
    config = read()

    assert (config.security_enabled, config.graceful_shutdown_enabled) == (True, False)
    assert (config.acceptors, config.addresses, config.address_settings, config.security_settings) == ((), (), {}, {})
    assert config.login.anonymous_access is AnonymousAccess.LOOPBACK
    assert config.login.anonymous_roles == ("guests",)
    assert config.settings.global_max_size_bytes > 0
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("-1", -1), ("0", 0), ("7", 7), ("1K", 1024), ("2m", 2 * 1024**2), ("3 GiB", 3 * 1024**3), ("4kb", 4096)],
)
def test_sizes_have_suffixes(text: str, expected: int) -> None:
    """Reference, notation: all multiples of 1024."""
    assert read(f"<global-max-size>{text}</global-max-size>").settings.global_max_size_bytes == expected


def test_the_folder_of_the_file_is_kept(tmp_path: Path) -> None:
    """File names in the file are relative to its folder."""
    assert read(folder=tmp_path).login.folder == tmp_path
