"""Settings: one table of options, Artemis' defaults, and which match wins (artemis-model §1.8, §2.1)."""

from typing import Any

import pytest
from attrs import fields

from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.settings.address_settings import (
    ADDRESS_SETTINGS,
    AddressSettings,
    DeletionPolicy,
    DiskFullPolicy,
    FullPolicy,
    PageFullPolicy,
    ResolvedSettings,
    SlowConsumerPolicy,
    SlowConsumerUnit,
    merge,
)
from artemis_py.core.settings.broker_settings import BROKER_OPTIONS, BrokerSettings
from artemis_py.core.settings.declaration import Option
from artemis_py.core.settings.queue_config import QUEUE_OPTIONS
from artemis_py.core.settings.queue_settings import RingEviction
from artemis_py.core.settings.repository import SettingsRepository
from artemis_py.errors import InvalidRequest

# Written down a second time on purpose: what users of Artemis rely on.
ARTEMIS_DEFAULTS = {
    "dead-letter-address": None,
    "auto-create-dead-letter-resources": False,
    "dead-letter-queue-prefix": "DLQ.",
    "dead-letter-queue-suffix": "",
    "expiry-address": None,
    "auto-create-expiry-resources": False,
    "expiry-queue-prefix": "EXP.",
    "expiry-queue-suffix": "",
    "expiry-delay": -1,
    "min-expiry-delay": -1,
    "max-expiry-delay": -1,
    "no-expiry": False,
    "redelivery-delay": 0,
    "redelivery-delay-multiplier": 1.0,
    "redelivery-collision-avoidance-factor": 0.0,
    "max-redelivery-delay": -1,
    "max-delivery-attempts": 10,
    "redistribution-delay": None,  # -1 in Artemis: never; unset is "at once" here (mesh §3.4)
    "max-size-bytes": -1,
    "max-size-messages": -1,
    "max-size-bytes-reject-threshold": -1,
    "address-full-policy": FullPolicy.PAGE,
    "page-limit-bytes": -1,
    "page-limit-messages": -1,
    # Unset in Artemis, and then the limits do nothing.
    "page-full-policy": PageFullPolicy.FAIL,
    # Here every queue pages always, so what it keeps in memory has a limit: Artemis has -1 and twice page-size-bytes.
    "max-read-page-messages": 4000,
    "max-read-page-bytes": 4 * 1024 * 1024,
    "disk-full-policy": DiskFullPolicy.BLOCK,
    "default-exclusive-queue": False,
    "default-group-buckets": -1,
    "default-group-rebalance": False,
    "default-group-rebalance-pause-dispatch": False,
    "default-group-first-key": None,
    "default-last-value-queue": False,
    "default-last-value-key": None,
    "default-non-destructive": False,
    "default-ring-size": -1,
    # Not in Artemis, whose rings do what HEAD does.
    "default-ring-eviction": RingEviction.OLDEST,
    "default-consumers-before-dispatch": 0,
    "default-delay-before-dispatch": -1,
    "default-purge-on-no-consumers": False,
    "default-max-consumers": -1,
    "default-address-routing-type": RoutingType.MULTICAST,
    "default-queue-routing-type": RoutingType.MULTICAST,
    "send-to-dla-on-no-route": False,
    "auto-create-queues": True,
    "auto-create-addresses": True,
    "auto-delete-queues": True,
    "auto-delete-created-queues": False,
    "auto-delete-queues-delay": 0,
    "auto-delete-queues-message-count": 0,
    "auto-delete-queues-skip-usage-check": False,
    "auto-delete-addresses": True,
    "auto-delete-addresses-delay": 0,
    "auto-delete-addresses-skip-usage-check": False,
    "config-delete-queues": DeletionPolicy.OFF,
    "config-delete-addresses": DeletionPolicy.OFF,
    "config-delete-diverts": DeletionPolicy.OFF,
    "enable-ingress-timestamp": False,
    "retroactive-message-count": 0,
    "id-cache-size": -1,
    "slow-consumer-threshold": -1,
    "slow-consumer-threshold-measurement-unit": SlowConsumerUnit.MESSAGES_PER_SECOND,
    "slow-consumer-check-period": 5,
    "slow-consumer-policy": SlowConsumerPolicy.NOTIFY,
}

ARTEMIS_BROKER_DEFAULTS = {
    "management-address": "activemq.management",
    "message-expiry-scan-period": 30_000,
    "address-queue-scan-period": 30_000,
    "global-max-messages": -1,
    "transaction-timeout": 300_000,
    "transaction-timeout-scan-period": 1_000,
    "id-cache-size": 20_000,
    "persist-id-cache": True,
    "amqp-use-core-subscription-naming": False,
    "internal-naming-prefix": "$.artemis.internal.",
    "literal-match-markers": None,
    "uuid-namespace": None,
}

A_UUID = "0b5e1c0e-9c2f-4a33-8d0e-3f5f7a6f2c11"


def repository(options: BrokerSettings | None = None, **settings: AddressSettings) -> SettingsRepository:
    """A repository with these matches; `all` stands for `#`, `a__` for `a.#`."""
    options = options or BrokerSettings()
    hierarchy: MatchHierarchy[AddressSettings] = MatchHierarchy(options.wildcards, options.literal_match_markers)
    made = SettingsRepository(hierarchy, options)
    for name, value in settings.items():
        made.add("#" if name == "all" else name.replace("__", ".#").replace("_", "."), value)
    return made


def test_every_address_setting_has_artemis_default() -> None:
    """artemis-model §2.1, with the code's value where the manual differs (artemis-model §9.1)."""
    assert {option.name: option.default for option in ADDRESS_SETTINGS} == ARTEMIS_DEFAULTS


def test_the_brokers_options_have_artemis_defaults() -> None:
    """artemis-model §6.4."""
    defaults = {option.name: option.default for option in BROKER_OPTIONS}

    assert {name: defaults[name] for name in ARTEMIS_BROKER_DEFAULTS} == ARTEMIS_BROKER_DEFAULTS


def test_what_a_match_can_set_is_what_applies_in_the_end() -> None:
    """The fields of a match are made of the declarations."""
    assert [field.name for field in fields(AddressSettings)] == [option.attribute for option in ADDRESS_SETTINGS]
    assert all(field.default is None for field in fields(AddressSettings))


@pytest.mark.parametrize("option", [*ADDRESS_SETTINGS, *BROKER_OPTIONS, *QUEUE_OPTIONS], ids=lambda option: option.name)
def test_every_option_is_explained(option: Option) -> None:
    """The documentation is made of these texts."""
    assert option.help.endswith(".")


def test_an_address_without_any_match_has_the_defaults() -> None:
    """Artemis' built-in constants; only the cap of redelivery is derived."""
    resolved = repository().resolve("a.b")

    assert resolved == merge([])
    assert resolved.max_delivery_attempts == 10


def test_each_setting_comes_from_the_most_specific_match_that_has_it() -> None:
    """artemis-model §1.8: settings are merged field by field; artemis-model §9.2 row 8."""
    settings = repository(
        all=AddressSettings(dead_letter_address="DLQ", max_delivery_attempts=3, redelivery_delay=7),
        a__=AddressSettings(max_delivery_attempts=5, redelivery_delay=9),
        a_b=AddressSettings(redelivery_delay=11),
    )

    exact, below, elsewhere = settings.resolve("a.b"), settings.resolve("a.c"), settings.resolve("x")

    assert (exact.dead_letter_address, exact.max_delivery_attempts, exact.redelivery_delay) == ("DLQ", 5, 11)
    assert (below.dead_letter_address, below.max_delivery_attempts, below.redelivery_delay) == ("DLQ", 5, 9)
    assert (elsewhere.dead_letter_address, elsewhere.max_delivery_attempts, elsewhere.redelivery_delay) == ("DLQ", 3, 7)


def test_a_value_that_equals_the_default_still_wins_over_a_broader_match() -> None:
    """Unset and set to the default are different things."""
    settings = repository(all=AddressSettings(max_size_bytes=100), a=AddressSettings(max_size_bytes=-1))

    assert settings.resolve("a").max_size_bytes == -1


@pytest.mark.parametrize("name", ["dead_letter_address", "expiry_address"])
def test_an_empty_name_takes_back_the_address_of_a_broader_match(name: str) -> None:
    """Otherwise a `#` with a dead-letter address would leave no way to have none."""
    given: Any = {name: "X"}
    taken: Any = {name: ""}
    settings = repository(all=AddressSettings(**given), a=AddressSettings(**taken))

    assert getattr(settings.resolve("a"), name) is None
    assert getattr(settings.resolve("b"), name) == "X"


@pytest.mark.parametrize(("delay", "cap", "expected"), [(0, None, 0), (50, None, 500), (50, -1, 500), (50, 70, 70)])
def test_the_cap_of_redelivery_is_ten_times_the_delay_unless_set(delay: int, cap: int | None, expected: int) -> None:
    """artemis-model §2.1, `max-redelivery-delay`."""
    assert merge([AddressSettings(redelivery_delay=delay, max_redelivery_delay=cap)]).max_redelivery_delay == expected


def test_the_cap_is_derived_from_the_merged_delay() -> None:
    """The delay may come from another match than the cap would."""
    settings = repository(all=AddressSettings(redelivery_delay=5), a=AddressSettings(max_delivery_attempts=1))

    assert settings.resolve("a").max_redelivery_delay == 50


def test_of_a_fully_qualified_name_only_the_address_counts() -> None:
    """artemis-model §1.8: FQQN look-ups use the address part."""
    settings = repository(a=AddressSettings(max_size_messages=3), q=AddressSettings(max_size_messages=4))

    assert settings.resolve("a::q").max_size_messages == 3


@pytest.mark.parametrize("name", [A_UUID, A_UUID.upper(), "ID:host-4711-1700000000000-0:1:1"])
def test_made_up_names_are_seen_below_the_uuid_namespace(name: str) -> None:
    """artemis-model §1.8: names of temporary resources of AMQP and Core, and of OpenWire."""
    settings = repository(BrokerSettings(uuid_namespace="temp"), temp__=AddressSettings(max_size_messages=3))

    assert settings.resolve(name).max_size_messages == 3


@pytest.mark.parametrize("name", ["orders", f"x{A_UUID}", "ID:host", A_UUID[:-1]])
def test_other_names_are_not_moved_into_the_uuid_namespace(name: str) -> None:
    """Only what nobody chose is moved."""
    settings = repository(BrokerSettings(uuid_namespace="temp"), temp__=AddressSettings(max_size_messages=3))

    assert settings.resolve(name).max_size_messages == -1


def test_without_a_uuid_namespace_made_up_names_are_ordinary() -> None:
    """The default."""
    assert BrokerSettings().name_in_matches(A_UUID) == A_UUID


def test_the_uuid_namespace_is_joined_with_the_brokers_delimiter() -> None:
    """A match below the namespace must be able to see a word of its own."""
    options = BrokerSettings(uuid_namespace="temp", wildcards=WildcardSyntax(delimiter="/"))

    assert options.name_in_matches(f"{A_UUID}::q") == f"temp/{A_UUID}::q"


def test_the_first_of_two_equal_matches_is_kept() -> None:
    """artemis-model §1.8, other rules."""
    settings = repository(a=AddressSettings(max_size_messages=3))

    assert settings.add("a", AddressSettings(max_size_messages=4)) is False
    assert settings.resolve("a").max_size_messages == 3


def test_a_change_is_seen_at_once_by_listeners_and_resolve() -> None:
    """Queues re-read their settings from the callback."""
    settings = repository(a=AddressSettings(max_size_messages=3))
    seen = [settings.resolve("a").max_size_messages]
    settings.on_change(lambda: seen.append(settings.resolve("a").max_size_messages))

    settings.put("a", AddressSettings(max_size_messages=4))
    removed = settings.remove("a")

    assert seen == [3, 4, -1]
    assert removed is True
    assert settings.remove("a") is False


def test_addresses_under_the_same_matches_share_their_settings() -> None:
    """Memory must not grow with the number of addresses."""
    settings = repository(all=AddressSettings(max_size_messages=3), a__=AddressSettings(max_size_messages=4))

    assert settings.resolve("x.1") is settings.resolve("x.2")
    assert settings.resolve("x.1") is not settings.resolve("a.1")


def test_a_match_with_any_words_before_its_end_is_refused() -> None:
    """artemis-model §1.7."""
    with pytest.raises(InvalidRequest, match="only allowed as the last word"):
        repository().put("a.#.b", AddressSettings())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (AddressSettings(), False),
        (AddressSettings(no_expiry=True), True),
        (AddressSettings(expiry_delay=0), True),
        (AddressSettings(min_expiry_delay=1), True),
        (AddressSettings(max_expiry_delay=1), True),
        (AddressSettings(enable_ingress_timestamp=True), True),
    ],
)
def test_whether_any_setting_changes_messages_is_known_beforehand(settings: AddressSettings, expected: bool) -> None:
    """Routing asks this for every message; the derived cap must not lose it."""
    assert merge([settings]).changes_messages is expected


def test_resolved_settings_stand_for_themselves() -> None:
    """Constructed directly they are Artemis' constants."""
    assert ResolvedSettings().address_full_policy is FullPolicy.PAGE
