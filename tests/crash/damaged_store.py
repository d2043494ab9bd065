"""Damages a store in many ways, and looks what is left: `python -m tests.crash.damaged_store FOLDER KIND COUNT`.

Each case is a child process of its own, so that a case that kills it is seen. A line of JSON is written for each.
"""

import contextlib
import io
import json
import logging
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from artemis_py.core.messages.builtin_format import PLAIN_FORMAT, plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.consumer import ACCEPTED, FAILED
from artemis_py.core.queues.settlement import acknowledge
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import FILE_NAME
from artemis_py.store.lmdb import LARGE_MESSAGES_NAME
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.copies import back_up, compact
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.statistics import statistics
from tests.core_harness import attach, browse_all, settle_down
from tests.unit.store.test_ranges import commit as stage_commit
from tests.unit.store.test_ranges import stage
from tests.unit.store.world import World, bodies
from tests.unit.storetools.stores import fill_large

PAGE: Final = 4096
MANY: Final = 200
STAGED: Final = 60
KEYS: Final = 100
"""Enough for trees of several pages: each page is a case, and each case reads every message seven times."""
NEW: Final = 30
"""Messages that are sent after the damage: none may take the place of another."""
FORMATS: Final = {PLAIN_FORMAT.name: PLAIN_FORMAT}

Change = Callable[[bytearray], bytearray]


def make(folder: Path) -> None:
    """A store with something of everything, several pages of messages, long values, and free pages.

    Each commit is one of LMDB. With a log there would be so few that what leads to the values is not behind them, where
    it is in a store that has lived for a while, and where a cut loses it.
    """
    fill_large(folder)
    with World(folder, log=None) as world:
        world.queue("many")
        world.send("many", *[f"many {number} {'x' * 150}" for number in range(MANY)])
        world.send("many", "y" * 9000, "z" * 30000)
        world.queue("last", last_value_key="key")
        send_keyed(world, "old")
        world.settle()
        world.stop()
    make_ranges(folder)
    with World(folder, log=None) as world:
        for reference in list(browse_all(world.queue("many")))[: MANY // 6]:
            acknowledge(reference)
        world.settle()
        world.stop()


def make_ranges(folder: Path) -> None:
    """A queue that has inherited two ranges, of which the first is half consumed, and messages around them."""
    with World(folder, log=None) as world:
        world.services.staging.epochs.inherited_messages = 1
        queue = world.queue("ranges")
        world.send("ranges", "before")
        for attempt in "ab":
            stage(world, *[f"{attempt} {number} {'x' * 150}" for number in range(STAGED)], attempt=attempt)
        stage_commit(world, a=STAGED, b=STAGED)
        world.send("ranges", "after")
        world.settle()
        assert len(world.environment.inherited.by_source) == 2
        recorder, consumer = attach(world.domain, queue, credit=STAGED // 2)
        settle_down(world.domain)
        first, *taken, last = recorder.take()
        for reference in taken:
            consumer.settle(reference, ACCEPTED)
        for reference in (first, last):
            consumer.settle(reference, FAILED)
        world.settle()
        world.stop()


def send_keyed(world: World, body: str) -> None:
    """A message for each key."""
    for number in range(KEYS):
        view = MessageView(body=f"{body} {number}", properties={"key": str(number)})
        world.domain.route(plain_message("last", view, durable=True), world.domain.addresses["last"])


def changes(kind: str, size: int, count: int) -> Iterator[tuple[str, Change]]:
    """The cases of a kind: what each is called, and what it does to the file."""
    lots = random.Random(kind)
    pages = size // PAGE

    def overwrite(page: int, content: bytes) -> Change:
        def change(data: bytearray) -> bytearray:
            data[page * PAGE : (page + 1) * PAGE] = content
            return data

        return change

    def swap(one: int, other: int) -> Change:
        def change(data: bytearray) -> bytearray:
            first, second = slice(one * PAGE, (one + 1) * PAGE), slice(other * PAGE, (other + 1) * PAGE)
            data[first], data[second] = data[second], data[first]
            return data

        return change

    def flip(offset: int, bit: int) -> Change:
        def change(data: bytearray) -> bytearray:
            data[offset] ^= bit
            return data

        return change

    def cut(length: int) -> Change:
        return lambda data: data[:length]

    match kind:
        case "cut":
            lengths = {0, 1, 100, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 8, size - 1, size - PAGE // 2}
            for length in sorted(lengths | {page * PAGE for page in range(pages)}):
                yield f"cut to {length}", cut(length)
        case "zero":
            for page in range(pages):
                yield f"page {page} zeroed", overwrite(page, bytes(PAGE))
        case "random":
            for page in range(pages):
                yield f"page {page} overwritten", overwrite(page, lots.randbytes(PAGE))
        case "swap":
            for _ in range(count):
                one, other = lots.sample(range(pages), 2)
                yield f"pages {one} and {other} swapped", swap(one, other)
        case "flip":
            for _ in range(count):
                page, bit = lots.randrange(pages), 1 << lots.randrange(8)
                # Page headers, the rest of meta pages, and anything.
                offset = page * PAGE + lots.randrange(lots.choice((16, 152, PAGE)))
                yield f"bit {bit} of octet {offset} flipped", flip(offset, bit)


def names(folder: Path) -> dict[str, list[str]]:
    """What all queues serve; new messages come behind it."""
    with World(folder) as world:
        there = {name: [str(body) for body in bodies(queue)] for name, queue in world.domain.queues.items()}
        world.settle()
        world.queue("many")
        world.send("many", *[f"new {number}" for number in range(NEW)])
        world.settle()
        now = [str(body) for body in bodies(world.queue("many"))]
        assert now == [*there.get("many", []), *[f"new {number}" for number in range(NEW)]], "overwritten"
        last = world.queue("last", last_value_key="key")
        if last.settings.last_value:
            send_keyed(world, "new")
            world.settle()
            # An older one can only stay if the entry of its key was damaged.
            older = last.message_count - KEYS
            assert 0 <= older <= world.count(schema.DAMAGED), "not replaced"
            assert bodies(last)[older:] == [f"new {number}" for number in range(KEYS)], "not replaced"
        world.stop()
    return there


def look(folder: Path) -> dict[str, Any]:
    """What every command says of a store, and what a start finds."""
    log = io.StringIO()
    logging.basicConfig(stream=log, level=logging.WARNING, force=True)
    found: dict[str, Any] = {}
    commands: dict[str, Callable[[], object]] = {
        "stat": lambda: list(statistics(folder).problems),
        "check": lambda: check_folder(folder),
        "export": lambda: export_folder(folder, folder / "export.jsonl", FileFormat.JSONL, FORMATS).left_out,
        "export xml": lambda: export_folder(folder, folder / "export.xml", FileFormat.XML, FORMATS).left_out,
        "backup": lambda: back_up(folder, folder.with_name("backup")) and [],
        "compact": lambda: compact(folder) and [],
        "start": lambda: names(folder),
    }
    for name, command in commands.items():
        try:
            found[name] = command()
        except StoreError as error:
            found[name] = f"refused: {error}"
    found["log"] = log.getvalue().splitlines()
    found["bodies"] = len(list((folder / LARGE_MESSAGES_NAME).glob("*.body")))
    with contextlib.suppress(StoreError):
        found["afterwards"] = check_folder(folder)
    return found


def run(folder: Path, kind: str, count: int) -> None:
    """All cases of a kind."""
    original = folder / "original"
    make(original)
    data = (original / FILE_NAME).read_bytes()
    cases: list[tuple[str, Change | None]] = [("nothing", None), *changes(kind, len(data), count)]
    for name, change in cases:
        case = folder / "case"
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(original, case / "store")
        if change is not None:
            (case / "store" / FILE_NAME).write_bytes(change(bytearray(data)))
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "w") as stream:
                json.dump(look(case / "store"), stream)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as stream:
            text = stream.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps({"case": name, "status": status, "found": json.loads(text) if text else {}}))


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
