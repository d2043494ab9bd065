"""Exchanges and bindings over restarts, crashes and damage (P6)."""

import logging
from pathlib import Path

import pytest
from attrs import evolve

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.routing.exchanges.arguments import Scalar
from artemis_py.core.routing.exchanges.kept import BINDINGS, EXCHANGES, exchange_key
from artemis_py.core.settings.address_settings import AddressSettings
from artemis_py.core.settings.exchange_config import ExchangeLifetime, Unroutable
from artemis_py.deployment.exchanges import restore_exchanges
from artemis_py.store import schema
from artemis_py.storetools.check import check_folder
from tests.core_harness import make_queue
from tests.unit.core.exchange_world import (
    bind,
    chain,
    make_exchange,
    publish,
    reached,
    to_exchange,
    to_queue,
    unbind,
)
from tests.unit.store.world import World, bodies


class Site(World):
    """A world whose exchanges come back."""

    def __init__(self, folder: Path, settings: dict[str, AddressSettings] | None = None) -> None:
        super().__init__(folder, settings)
        self.problems = self.domain.exchanges.restore()

    def __enter__(self) -> "Site":
        return self


def lines(site: Site) -> set[str]:
    """All bindings, in words."""
    return {f"{each.name} -{b.key}-> {b.destination}" for each in site.domain.exchanges for b in each.bindings.values()}


def test_what_is_durable_at_both_ends_comes_back(tmp_path: Path) -> None:
    """With all attributes and arguments, and nothing else does."""
    arguments: dict[str, Scalar] = {"x-match": "any", "A": 1, "B": True, "C": None, "D": "text", "E": 0.5}
    with Site(tmp_path) as site:
        domain = site.domain
        for name, durable in (("q", True), ("passing", False), ("spare", True)):
            make_queue(domain, name, durable=durable)
        f = make_exchange(domain, "f", "topic", unroutable=Unroutable.REJECT, alternate=to_queue("spare"))
        e = make_exchange(domain, "e", "headers", lifetime=ExchangeLifetime.LAST_BINDING, alternate=to_exchange("f"))
        make_exchange(domain, "passing", durable=False)
        make_exchange(domain, "of a session", lifetime=ExchangeLifetime.SESSION)
        bind(domain, "e", "k", "q", arguments)
        bind(domain, "amq.topic", "a.#", "q", {"x-filter-jms-selector": "colour = 'red'"})
        chain(domain, "amq.fanout", "", "f", {"x-replacement-routing-key": "other"})
        bind(domain, "e", "", "passing")
        bind(domain, "passing", "", "q")
        bind(domain, "of a session", "", "q")
        chain(domain, "e", "", "passing")
        chain(domain, "passing", "", "e")
        configs = [e.config, f.config]
        site.settle()

    assert check_folder(tmp_path) == []
    with Site(tmp_path) as site:
        exchanges = site.domain.exchanges
        assert site.problems == []
        assert [exchanges.exchange(name).config for name in "ef"] == configs
        assert {each.name for each in exchanges if not each.is_predeclared} == {"e", "f"}
        assert lines(site) == {"e -k-> queue 'q'", "amq.topic -a.#-> queue 'q'", "amq.fanout --> exchange 'f'"}
        assert exchanges.exchange("e").bindings[("k", True, "q")].arguments == arguments
        assert reached(site.domain, "amq.topic", "a", colour="red") == {"q"}
        assert reached(site.domain, "amq.topic", "a", colour="blue") == set()
        assert reached(site.domain, "amq.fanout", "a") == {"spare"}
        assert reached(site.domain, "e", A=2) == {"spare"}
        assert not unbind(site.domain, "e", "", "q")
        assert unbind(site.domain, "e", "k", "q")
        assert exchanges.find("e") is None


def test_what_was_removed_does_not_come_back(tmp_path: Path) -> None:
    """Neither bindings that were unbound, nor those of a queue or an exchange that was deleted."""
    with Site(tmp_path) as site:
        domain = site.domain
        for name in ("q", "r"):
            make_queue(domain, name)
        make_exchange(domain, "e")
        make_exchange(domain, "f")
        for name in ("e", "f", "amq.direct"):
            bind(domain, name, "k", "q")
            bind(domain, name, "k", "r")
        chain(domain, "f", "k", "e")
        site.settle()

    with Site(tmp_path) as site:
        unbind(site.domain, "f", "k", "r")
        site.domain.delete_queue("q")
        site.domain.exchanges.delete(site.domain.exchanges.exchange("e"))
        site.settle()

    assert check_folder(tmp_path) == []
    with Site(tmp_path) as site:
        make_queue(site.domain, "q")
        assert lines(site) == {"amq.direct -k-> queue 'r'"}
        assert {each.name for each in site.domain.exchanges if not each.is_predeclared} == {"f"}


def test_changes_come_back(tmp_path: Path) -> None:
    """Of exchanges, also of predeclared ones, and of arguments."""
    with Site(tmp_path) as site:
        exchanges = site.domain.exchanges
        make_queue(site.domain, "q")
        bind(site.domain, "amq.direct", "k", "q", {"x-filter-jms-selector": "a = 1"})
        bind(site.domain, "amq.direct", "k", "q", replace=True)
        topic = exchanges.exchange("amq.topic")
        exchanges.update(topic, evolve(topic.config, alternate=to_queue("q"), unroutable=Unroutable.REJECT))
        site.settle()

    with Site(tmp_path) as site:
        topic = site.domain.exchanges.exchange("amq.topic")
        assert topic.rejects
        assert reached(site.domain, "amq.direct", "k") == reached(site.domain, "amq.topic", "x") == {"q"}
        site.domain.delete_queue("q", force=True)
        site.settle()

    with Site(tmp_path) as site:
        assert site.problems == []
        assert site.domain.exchanges.exchange("amq.topic").config.alternate is None


def test_a_start_writes_nothing(tmp_path: Path) -> None:
    """However many bindings there are."""
    with Site(tmp_path) as site:
        make_queue(site.domain, "q")
        for number in range(50):
            bind(site.domain, "amq.topic", str(number), "q")
        site.settle()

    with Site(tmp_path) as site:
        before = site.store.batch
        site.settle()
        assert site.store.batch == before
        assert len(site.domain.exchanges.exchange("amq.topic").bindings) == 50


def test_a_queue_and_its_bindings_go_in_one_commit(tmp_path: Path) -> None:
    """A crash before it has both, one after it neither."""
    with Site(tmp_path) as site:
        make_queue(site.domain, "q")
        bind(site.domain, "amq.direct", "k", "q")
        site.settle()
        site.domain.delete_queue("q")
        site.hands.turn()

    assert check_folder(tmp_path) == []
    with Site(tmp_path) as site:
        assert lines(site) == {"amq.direct -k-> queue 'q'"}
        site.domain.delete_queue("q")
        site.hands.turn()
        site.hands.work()

    assert check_folder(tmp_path) == []
    with Site(tmp_path) as site:
        assert (lines(site), site.problems) == (set(), [])


def test_messages_survive_once_for_all_queues(tmp_path: Path) -> None:
    """One body and a reference from each queue; what is read again counts for the queue's address."""
    with Site(tmp_path) as site:
        make_queue(site.domain, "amq.fanout")
        for name in ("a", "b"):
            make_queue(site.domain, name)
            bind(site.domain, "amq.fanout", "", name)
        publish(site.domain, "amq.fanout", "k", plain_message("", MessageView(body="m"), True))
        site.settle()
        assert site.count(schema.MESSAGES) == 1
        assert site.count(schema.REFERENCES) == 2
        site.audit()

    with Site(tmp_path) as site:
        assert [bodies(site.queue(name)) for name in ("a", "b", "amq.fanout")] == [["m"], ["m"], []]
        assert site.domain.addresses["amq.fanout"].size_bytes == 0
        for name in "ab":
            assert site.domain.addresses[name].message_count == 1
            site.queue(name).purge()
            assert site.domain.addresses[name].message_count == 0
        site.settle()
        site.audit()


def test_damaged_records_are_named_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rest comes back; `data check` says the same."""
    with Site(tmp_path) as site:
        make_queue(site.domain, "q")
        for name in ("e", "f"):
            make_exchange(site.domain, name)
            bind(site.domain, name, "k", "q")
        site.settle()
        site.store.save_record(EXCHANGES, exchange_key("e"), b"{}")
        site.store.save_record(
            EXCHANGES,
            b"of another",
            b'{"name":"x","type":"direct","lifetime":"permanent",'
            b'"unroutable":"discard","durable":true,"alternate":null}',
        )
        site.store.save_record(BINDINGS, b"odd", b"[]")
        site.settle()

    problems = check_folder(tmp_path)
    assert len(problems) == 3
    assert any("it is not an exchange" in each for each in problems)
    assert any("under the key of another one" in each for each in problems)
    assert any("it is not a binding" in each for each in problems)
    with World(tmp_path) as world, caplog.at_level(logging.ERROR):
        restore_exchanges(world.domain.exchanges)
        assert {each.name for each in world.domain.exchanges if not each.is_predeclared} == {"f"}
        assert reached(world.domain, "f", "k") == {"q"}
    assert "stored exchange or binding is not used: exchange of record" in caplog.text
    assert "exchange 'e' does not exist" in caplog.text


def test_ends_that_are_missing_are_found_by_a_check(tmp_path: Path) -> None:
    """A queue whose definition is lost, and an exchange."""
    with Site(tmp_path) as site:
        make_queue(site.domain, "q")
        make_exchange(site.domain, "f")
        make_exchange(site.domain, "e", alternate=to_exchange("f"))
        bind(site.domain, "amq.direct", "k", "q")
        chain(site.domain, "e", "k", "f")
        site.settle()
        site.store.save_record(EXCHANGES, exchange_key("f"), None)
        site.settle()
        with site.environment.begin(write=True) as transaction:
            transaction.drop(site.environment.database(schema.QUEUES), delete=False)

    problems = " ".join(check_folder(tmp_path))

    assert "one of its ends, queue 'q', does not exist" in problems
    assert "one of its ends, exchange 'f', does not exist" in problems
    assert "its alternate, exchange 'f', does not exist" in problems
    with Site(tmp_path) as site:
        assert len(site.problems) == 3
        assert site.domain.exchanges.find("e") is not None
