"""`data check`: what a broker writes is sound, and whatever is wrong is found and named."""

from pathlib import Path

import pytest

from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from artemis_py.store.schema import number_value as number
from artemis_py.storetools.check import check, check_folder
from tests.unit.store.test_damage import spoil
from tests.unit.store.world import SMALL_MAP_BYTES, World, bodies
from tests.unit.storetools.stores import body_file, changed, fill, fill_large, in_another_process, leave_a_drop

COUNT = schema.counts(schema.rank_key(2, 5), 1, 5)


def test_a_sound_store_has_no_problems(tmp_path: Path) -> None:
    """`data check`: what the broker writes holds together."""
    fill_large(tmp_path)

    findings = check(tmp_path)

    assert findings.problems == []
    assert findings.unreferenced_files == 0
    assert findings.values > 8


@pytest.mark.parametrize(
    ("database", "said"),
    [
        (schema.ADDRESSES, "checksum"),
        (schema.QUEUES, "checksum"),
        (schema.REFERENCES, "checksum"),
        (schema.MESSAGES, "checksum"),
        (schema.ATTEMPTS, "checksum"),
        (schema.DUPLICATES, "checksum"),
        (schema.COUNTS, "checksum"),
        (schema.RECORDS, "checksum"),
        (schema.BODIES, "checksum"),
        (schema.SHARES, "checksum"),
        (schema.MARKS, "checksum"),
    ],
)
def test_a_damaged_value_is_found_and_left(tmp_path: Path, database: bytes, said: str) -> None:
    """R8: named with its database and key."""
    fill_large(tmp_path)
    key = spoil(tmp_path, database)

    for _ in range(2):
        (problem,) = check(tmp_path).problems
        assert problem.startswith(f"{database.decode()} {key.hex()}: ")
        assert said in problem


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        (schema.QUEUES, ["its queue does not exist"] * 3),
        (schema.ADDRESSES, ["its address does not exist"]),
        (schema.MESSAGES, ["its message is missing"]),
        (schema.SHARES, ["the count of a shared message is missing"]),
        (schema.REFERENCES, ["1 references are there, 2 were counted", "there is no reference at this place"]),
        (schema.COUNTS, ["the count of its references is missing"]),
        (schema.BODIES, ["the count of a large body is missing"]),
    ],
)
def test_a_missing_value_is_missed(tmp_path: Path, database: bytes, expected: list[str]) -> None:
    """What refers to nothing is a problem, even if every checksum is right."""
    (fill_large if database == schema.BODIES else fill)(tmp_path)
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        cursor = transaction.cursor(db=environment.database(database))
        assert cursor.first()
        cursor.delete()

    problems = check(tmp_path).problems

    assert [problem.split(": ")[1] for problem in problems] == expected


def test_values_that_were_set_aside_are_listed(tmp_path: Path) -> None:
    """They stay until somebody looked."""
    fill(tmp_path)
    key = spoil(tmp_path, schema.REFERENCES)
    with World(tmp_path) as world:
        assert bodies(world.queue()) == ["b"]
        world.stop()

    findings = check(tmp_path)

    assert findings.damaged == [f"references {key.hex()}"]
    assert findings.problems == []


@pytest.mark.parametrize(
    ("database", "key", "value", "said"),
    [
        (schema.META, schema.NEXT_MESSAGE_ID, number(schema.NEXT_MESSAGE_ID, 1), "its message id may be given again"),
        (schema.META, schema.NEXT_QUEUE_ID, number(schema.NEXT_QUEUE_ID, 1), "its id may be given again"),
        (schema.MARKS, schema.U32.pack(1), number(schema.U32.pack(1), 1), "its sequence may be given again"),
        (schema.META, schema.NEXT_SCHEDULED, number(schema.NEXT_SCHEDULED, 1), "its running number may be given again"),
        (
            schema.COUNTS,
            schema.rank_key(1, 3),
            schema.counts(schema.rank_key(1, 3), 1, 5),
            "0 references are there, 1 were counted",
        ),
        (schema.COUNTS, schema.rank_key(2, 5), COUNT, "its references take 5"),
        (schema.DROPS, schema.U64.pack(1), schema.seal(schema.U64.pack(1), b""), "it is not a drop"),
        (schema.RECORDS, b"key", schema.seal(b"key", b""), "its key has no space"),
        (
            schema.BODIES,
            schema.U64.pack(9),
            schema.count_value(schema.U64.pack(9), 1),
            "0 messages have this body, 1 were counted",
        ),
        (schema.COUNTS, b"odd", COUNT, "its checksum is wrong"),
        (schema.REFERENCES, b"odd", schema.seal(b"odd", schema.ALONE), "an impossible length"),
        (schema.MARKS, schema.U32.pack(1), b"", "its checksum is wrong"),
        (schema.META, schema.NEXT_QUEUE_ID, schema.seal(schema.NEXT_QUEUE_ID, b""), "it is not a number"),
        (schema.SHARES, schema.U64.pack(77), schema.count_value(schema.U64.pack(77), 1), "its message is missing"),
        (schema.MESSAGES, schema.U64.pack(77), b"", "its checksum is wrong"),
    ],
)
def test_numbers_that_would_be_given_twice_are_found(
    tmp_path: Path, database: bytes, key: bytes, value: bytes, said: str
) -> None:
    """What the next start would hand out must be above everything that is there."""
    fill(tmp_path)
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        transaction.put(key, value, db=environment.database(database))

    assert any(said in problem for problem in check_folder(tmp_path))


def test_a_message_that_nobody_shares_is_found(tmp_path: Path) -> None:
    """It would stay for ever."""
    fill(tmp_path)
    with Environment(tmp_path, SMALL_MAP_BYTES) as environment, environment.begin(write=True) as transaction:
        cursor = transaction.cursor(db=environment.database(schema.REFERENCES))
        while cursor.last() and cursor.value()[4:5] == schema.SHARING:
            cursor.delete()

    assert [problem.split(": ")[1] for problem in check_folder(tmp_path)] == [
        "0 references are there, 1 were counted",
        "0 references are there, 1 were counted",
        "no reference shares it",
        "0 references share the message, 2 were counted",
    ]


def test_progress_is_told_to_the_last_value(tmp_path: Path) -> None:
    """Long checks show how far they are."""
    fill(tmp_path)
    told: list[tuple[int, int]] = []

    findings = check(tmp_path, lambda done, total: told.append((done, total)))

    assert told[-1] == (findings.values, findings.values)


def test_a_folder_without_a_store_is_told_apart(tmp_path: Path) -> None:
    """It is neither sound nor damaged."""
    with pytest.raises(StoreError, match="there is no store in"):
        check_folder(tmp_path)


def test_what_is_to_be_dropped_is_not_counted(tmp_path: Path) -> None:
    """A crash came between the commit that noted a purge and those that carry it out; one message was kept."""
    fill(tmp_path)
    leave_a_drop(tmp_path, schema.Drop(1, 5, upto=1 << 40, kept=frozenset((2,))))

    assert check_folder(tmp_path) == [
        "counts 0000000105: the count of its references is missing",
        "counts 000000010a: the count of its references is missing",
    ]


def test_a_queue_that_is_to_be_dropped_as_a_whole_leaves_nothing_to_say(tmp_path: Path) -> None:
    """Its references are not there for anybody."""
    fill(tmp_path)
    with changed(tmp_path) as (environment, transaction):
        transaction.delete(schema.U32.pack(1), db=environment.database(schema.QUEUES))
    leave_a_drop(tmp_path, schema.Drop(1, schema.ALL_RANKS))

    assert check_folder(tmp_path) == []


def test_a_missing_file_of_a_large_message_is_found(tmp_path: Path) -> None:
    """Its message would be set aside when its turn comes."""
    fill_large(tmp_path)
    body_file(tmp_path, 1).unlink()

    (problem,) = check_folder(tmp_path)

    assert problem.startswith(f"bodies {schema.U64.pack(1).hex()}: ")
    assert "1.body: No such file" in problem


def test_a_message_that_was_set_aside_for_its_body_is_no_problem_any_more(tmp_path: Path) -> None:
    """It keeps what is there of its body, alone or shared."""
    fill_large(tmp_path)
    body_file(tmp_path, 1).unlink()
    body_file(tmp_path, 2).write_bytes(b"short")
    with World(tmp_path) as world:
        assert bodies(world.queue("big")) == bodies(world.queue("l.a")) == bodies(world.queue("l.b")) == []
        world.settle()
        world.stop()

    findings = check(tmp_path)

    assert findings.problems == []
    assert [each.split()[0] for each in findings.damaged] == ["messages", "references", "references", "references"]


def test_a_file_of_another_size_or_content_is_found(tmp_path: Path) -> None:
    """All octets of all bodies are read."""
    fill_large(tmp_path)
    with body_file(tmp_path, 1).open("ab") as file:
        file.write(b"x")
    content = bytearray(body_file(tmp_path, 2).read_bytes())
    content[1000] ^= 1
    body_file(tmp_path, 2).write_bytes(content)

    longer, damaged = check_folder(tmp_path)

    assert "1.body has 512001 bytes, not 512000" in longer
    assert "2.body is damaged" in damaged


def test_a_file_that_nobody_refers_to_is_noted(tmp_path: Path) -> None:
    """It may be arriving: it is no problem."""
    fill(tmp_path)
    body_file(tmp_path, 7).write_bytes(b"12345")

    findings = check(tmp_path)

    assert (findings.problems, findings.unreferenced_files, findings.unreferenced_bytes) == ([], 1, 5)


def test_a_body_that_went_while_the_check_ran_is_no_problem(tmp_path: Path) -> None:
    """A broker consumed its message after the snapshot was taken."""
    fill_large(tmp_path)

    def consume(done: int, total: int) -> None:
        if done == 1:
            in_another_process("purge", tmp_path)

    findings = check(tmp_path, consume)

    assert not body_file(tmp_path, 1).exists()
    assert findings.problems == []
