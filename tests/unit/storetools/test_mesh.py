"""What a mesh has in a store: checked, and left out of exports, which name messages that were on their way."""

import json
from pathlib import Path
from struct import pack

import pytest

from artemis_py.cluster.claims import CHANNELS, CLAIMS
from artemis_py.cluster.marks import MARKS
from artemis_py.cluster.starts import INCARNATION, NODE
from artemis_py.core.messages.builtin_format import PLAIN_FORMAT
from artemis_py.store import schema
from artemis_py.storetools.check import check_folder
from artemis_py.storetools.export import FileFormat, export_folder
from artemis_py.storetools.intake import import_file
from tests.unit.store.world import World, bodies

FORMATS = {PLAIN_FORMAT.name: PLAIN_FORMAT}
CHANNEL = pack(">Q", 7)


def fill(folder: Path) -> None:
    """Three messages, of which two, and one that is gone, were on their way to broker B; and a mark."""
    with World(folder) as world:
        queue = world.queue("q")
        world.send("q", "1", "2", "3")
        world.settle()
        storage = world.store
        storage.save_record(CHANNELS, CHANNEL, b"node-b")
        claims = b"".join(pack(">IIBQ", offset, queue.id, 4, sequence) for offset, sequence in enumerate((1, 2, 99)))
        storage.save_record(CLAIMS, CHANNEL + pack(">Q", 1), claims)
        storage.save_record(MARKS, pack(">Q", 9) + b"node-c", pack(">Q", 5))
        storage.save_record(NODE, INCARNATION, pack(">Q", 3))
        world.stop()


def test_an_export_leaves_the_mesh_out_and_names_what_was_on_its_way(tmp_path: Path) -> None:
    """The broker that imports it is another one, which nobody could tell what had arrived."""
    fill(tmp_path / "old")
    assert check_folder(tmp_path / "old") == []
    exported = export_folder(tmp_path / "old", tmp_path / "file", FileFormat.JSONL, FORMATS)

    (note,) = exported.left_out
    assert note == (
        "note: 2 messages of queue 'q' were on their way to broker node-b: they are in the file, "
        "and may be there as well"
    )
    assert "mesh-" not in (tmp_path / "file").read_text()
    imported = import_file(tmp_path / "new", tmp_path / "file", FileFormat.JSONL, FORMATS)
    assert imported.left_out == ()
    with World(tmp_path / "new") as world:
        assert bodies(world.queue("q")) == ["1", "2", "3"]
        assert list(world.store.load_records(NODE)) == []
        world.stop()


def test_an_import_leaves_records_of_the_mesh_out(tmp_path: Path) -> None:
    """Earlier versions exported them."""
    fill(tmp_path / "old")
    export_folder(tmp_path / "old", tmp_path / "file", FileFormat.JSONL, FORMATS)
    lines = (tmp_path / "file").read_text().splitlines()
    record = '{"record":{"space":"mesh-node","key":"aW5jYXJuYXRpb24=","value":"AAAAAAAAAAM="}}'
    count = json.loads(lines[-1])["end"]
    changed = [*lines[:-1], record, json.dumps({"end": count + 1})]
    (tmp_path / "file").write_text("\n".join(changed) + "\n")
    imported = import_file(tmp_path / "new", tmp_path / "file", FileFormat.JSONL, FORMATS)

    assert imported.left_out == ("left out: 1 records of 'mesh-node': they belong to the broker that was exported",)
    with World(tmp_path / "new") as world:
        assert list(world.store.load_records(NODE)) == []
        world.stop()


@pytest.mark.parametrize(
    ("space", "key", "value", "problem"),
    [
        (CLAIMS, CHANNEL + CHANNEL, b"short", "wrong length"),
        (CLAIMS, CHANNEL + CHANNEL, b"", "nothing says for which broker"),
        (MARKS, b"x", CHANNEL, "names no channel"),
        (MARKS, CHANNEL + b"node-c", b"x", "no mark"),
        (CHANNELS, b"x", b"node-b", "names no channel"),
    ],
)
def test_records_that_make_no_sense_are_found(
    tmp_path: Path, space: str, key: bytes, value: bytes, problem: str
) -> None:
    """A start would pass them over, and messages might exist twice."""
    with World(tmp_path) as world:
        world.store.save_record(space, key, value)
        world.stop()
    (found,) = check_folder(tmp_path)

    assert problem in found
    assert schema.record_key(space, key).hex() in found
