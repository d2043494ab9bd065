"""The tools for a store with virtual hosts: nothing is mixed up, and nothing is lost on the way."""

from pathlib import Path

import pytest

from artemis_py.core.services.virtual_hosts import SPACE
from artemis_py.core.settings.exchange_config import Destination, ExchangeConfig, ExchangeType
from artemis_py.core.settings.virtual_host_config import VirtualHostConfig
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.storetools.check import check
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from artemis_py.storetools.statistics import statistics
from tests.core_harness import make_queue
from tests.unit.store.test_virtual_hosts import PLAIN, host, retain, send
from tests.unit.store.world import World, bodies


def filled(folder: Path) -> None:
    """A store with two hosts whose names are the same."""
    with World(folder) as world:
        for domain, text in ((world.domain, "default"), (host(world), "red"), (host(world, "blue"), "blue")):
            queue = make_queue(domain, "q")
            send(domain, "q", text, f"{text} again")
            exchange = domain.exchanges.declare(ExchangeConfig(name="e", type=ExchangeType.DIRECT))
            domain.exchanges.bind(exchange, text, Destination("q", is_queue=True))
            domain.duplicates.add(queue.address, text.encode(), True)
        retain(world, host(world), "topic", "kept")
        world.hosts.update("blue", VirtualHostConfig(name="blue", enabled=False))
        world.settle()
        world.stop()


def test_statistics_name_the_host_of_each_queue(tmp_path: Path) -> None:
    """Queues of one name are told apart."""
    filled(tmp_path)

    found = statistics(tmp_path)

    assert [(each.host, each.name, each.messages) for each in found.queues] == [
        ("", "q", 2),
        ("red", "q", 2),
        ("blue", "q", 2),
    ]
    assert found.format == schema.HOSTS_FORMAT


def test_a_store_with_hosts_is_sound(tmp_path: Path) -> None:
    """Names may be there once in each host."""
    filled(tmp_path)

    assert check(tmp_path).problems == []


def test_mistakes_of_hosts_are_named(tmp_path: Path) -> None:
    """A host that is missing, a record that cannot be read, a binding whose queue is in another host."""
    filled(tmp_path)
    with World(tmp_path) as world, world.environment.begin(write=True) as transaction:
        records = world.environment.database(schema.RECORDS)
        transaction.delete(schema.record_key(SPACE, schema.U32.pack(2)), db=records)
        key = schema.record_key(SPACE, schema.U32.pack(1))
        transaction.put(key, schema.seal(key, b"{}"), db=records)
        key = schema.U32.pack(2)
        transaction.delete(key, db=world.environment.database(schema.QUEUES))

    found = check(tmp_path).problems

    assert [each for each in found if each.endswith("virtual host 2 does not exist")]
    assert [each for each in found if "it is not a virtual host" in each]
    assert [each for each in found if "one of its ends, queue 'q', does not exist" in each]


def test_an_export_in_lines_has_everything_of_each_host(tmp_path: Path) -> None:
    """Imported into an empty store: the same hosts, with their states, queues, messages and records."""
    filled(tmp_path / "a")
    export_folder(tmp_path / "a", tmp_path / "lines", FileFormat.JSONL, PLAIN)

    imported = import_file(tmp_path / "b", tmp_path / "lines", FileFormat.JSONL, PLAIN)

    assert imported.left_out == ()
    assert check(tmp_path / "b").problems == []
    with World(tmp_path / "b") as world:
        found = [bodies(domain.queues["q"]) for domain in (world.domain, host(world), host(world, "blue"))]
        assert found == [["default", "default again"], ["red", "red again"], ["blue", "blue again"]]
        assert not world.hosts.host("blue").config.enabled
        red = host(world)
        assert red.exchanges.restore() == []
        assert [each.key for each in red.exchanges.exchange("e").bindings.values()] == ["red"]
        known = red.duplicates.of(red.addresses["q"])
        assert [each in known for each in (b"red", b"default")] == [True, False]
        services = world.hosts.host("red").services
        services.retained.load(PLAIN)
        assert services.retained.count == 1
        world.stop()
    assert statistics(tmp_path / "b").format == schema.HOSTS_FORMAT


def test_hosts_are_imported_into_an_empty_store_only(tmp_path: Path) -> None:
    """Their numbers mean other hosts elsewhere; the refusal names the line."""
    filled(tmp_path / "a")
    export_folder(tmp_path / "a", tmp_path / "lines", FileFormat.JSONL, PLAIN)
    with World(tmp_path / "b") as world:
        make_queue(world.domain, "other")
        world.settle()
        world.stop()

    with pytest.raises(StoreError, match=r"lines:\d+: it belongs to a virtual host"):
        import_file(tmp_path / "b", tmp_path / "lines", FileFormat.JSONL, PLAIN)


def test_an_export_for_artemis_has_the_default_host(tmp_path: Path) -> None:
    """Artemis has one set of names: what belongs to other hosts is left out and counted."""
    filled(tmp_path / "a")

    exported = export_folder(tmp_path / "a", tmp_path / "xml", FileFormat.XML, PLAIN)

    text = (tmp_path / "xml").read_text()
    assert text.count("<queue-binding ") == 1
    assert text.count("<message ") == 2
    assert [each for each in exported.left_out if "of virtual hosts" in each] == [
        "left out: 8 addresses, queues and messages of virtual hosts: Artemis has one set of names"
    ]
