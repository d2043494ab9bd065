"""Which dead-letter and expiry addresses `check` finds to have no queue."""

import pytest

from artemis_py.config import load_default
from artemis_py.config.letters import problems_of_letters
from tests.unit.config.samples import read

DLQ = '<address name="DLQ"><anycast><queue name="failed"/></anycast></address>'


def found(settings: str, addresses: str = DLQ, core: str = "") -> list[str]:
    """What is said about address settings beside these addresses."""
    text = f"<addresses>{addresses}</addresses>\n{core}<address-settings>{settings}</address-settings>"
    config = read(text)
    return [str(problem) for problem in problems_of_letters(config, config.places)]


def match(name: str, **settings: str) -> str:
    """An `<address-setting>`."""
    written = "".join(f"<{key.replace('_', '-')}>{value}</{key.replace('_', '-')}>" for key, value in settings.items())
    return f'<address-setting match="{name}">{written}</address-setting>'


def test_the_shipped_file_has_a_queue_for_everything() -> None:
    assert problems_of_letters(load_default({}), {}) == []


def test_an_address_without_a_queue_is_named_with_its_match_and_what_would_help() -> None:
    place = 'broker.xml:5: address-setting: match "a.#":'
    lost = "has no queue in <addresses>: messages would be lost; declare one in <addresses>, or set"

    assert found(match("a.#", dead_letter_address="DLA", expiry_address="late")) == [
        f'{place} dead-letter-address "DLA" {lost} auto-create-dead-letter-resources',
        f'{place} expiry-address "late" {lost} auto-create-expiry-resources',
    ]


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        (match("#", dead_letter_address="DLQ"), DLQ),
        (match("#", dead_letter_address=""), ""),
        (match("#", max_delivery_attempts="3"), ""),
        (match("#", dead_letter_address="DLQ::failed"), DLQ),
        (match("#", dead_letter_address="::failed"), DLQ),
        (match("#", dead_letter_address="DLA", auto_create_dead_letter_resources="true"), ""),
        (match("#", expiry_address="DLA", auto_create_expiry_resources="true"), ""),
        (match("#", auto_create_dead_letter_resources="true") + match("a", dead_letter_address="DLA"), ""),
        (
            match("#", dead_letter_address="dead.eu"),
            '<address name="dead.*"><multicast><queue name="q"/></multicast></address>',
        ),
    ],
)
def test_what_has_a_queue_passes(settings: str, addresses: str) -> None:
    """Declared, also for a wildcard or by a fully qualified name; or made on demand; or not wanted at all."""
    assert found(settings, addresses) == []


@pytest.mark.parametrize(
    ("settings", "addresses", "count"),
    [
        (match("#", dead_letter_address="DLQ"), '<address name="DLQ"><multicast/></address>', 1),
        (match("#", dead_letter_address="DLQ::other"), DLQ, 1),
        (match("#", dead_letter_address="DLQ::other", auto_create_dead_letter_resources="true"), DLQ, 1),
        (match("#", dead_letter_address="other::failed"), DLQ, 1),
        (match("#", dead_letter_address="DLA", auto_create_expiry_resources="true"), DLQ, 1),
        (match("#", dead_letter_address="DLA") + match("a", auto_create_dead_letter_resources="true"), DLQ, 1),
        (match("#", dead_letter_address="DLA") + match("a", max_delivery_attempts="3"), DLQ, 1),
        (
            match("#", dead_letter_address="DLA", auto_create_dead_letter_resources="true")
            + match("a", auto_create_dead_letter_resources="false"),
            DLQ,
            1,
        ),
        (match("#", dead_letter_address="dead.eu"), '<address name="dead.*"><multicast/></address>', 1),
    ],
)
def test_what_has_no_queue_is_told_once(settings: str, addresses: str, count: int) -> None:
    """At the match that says it, not at those that inherit it."""
    assert len(found(settings, addresses)) == count


def test_a_literal_match_means_one_address() -> None:
    """`(a.#)` is the address `a.#`, and settings of that name are what counts."""
    markers = "<literal-match-markers>()</literal-match-markers>"
    settings = match("#", auto_create_dead_letter_resources="true") + match("(a.#)", dead_letter_address="DLA")

    assert found(settings, core=markers) == []


def test_wildcard_queues_count_only_where_wildcards_route() -> None:
    core = "<wildcard-addresses><routing-enabled>false</routing-enabled></wildcard-addresses>"
    addresses = '<address name="dead.*"><multicast><queue name="q"/></multicast></address>'

    assert len(found(match("#", dead_letter_address="dead.eu"), addresses, core)) == 1


@pytest.mark.parametrize("address", ["DLA", "DLA.#"])
def test_a_divert_takes_messages_as_a_queue_does(address: str) -> None:
    """But it is no queue that a fully qualified name could mean."""
    core = (
        f'<diverts><divert name="d"><address>{address}</address><forwarding-address>DLQ</forwarding-address></divert>'
        "</diverts>"
    )

    assert found(match("a", dead_letter_address="DLA"), core=core) == []
    assert len(found(match("a", dead_letter_address="DLA::d"), core=core)) == 1
