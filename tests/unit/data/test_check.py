"""`data check`: what a broker writes is sound, and whatever is wrong is found and named."""

from pathlib import Path

import pytest

from artemis_py.data.check import check, check_folder
from artemis_py.errors import StoreError
from artemis_py.store import schema
from artemis_py.store.environment import Environment
from tests.unit.data.stores import fill
from tests.unit.store.test_damage import spoil
from tests.unit.store.world import SMALL_MAP_BYTES, World


def test_a_sound_store_has_no_problems(tmp_path: Path) -> None:
    """`data check`: what the broker writes holds together."""
    fill(tmp_path)

    findings = check(tmp_path)

    assert findings.problems == []
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
        (schema.SHARES, "2 references share the message, 66 were counted"),
    ],
)
def test_a_damaged_value_is_found_and_left(tmp_path: Path, database: bytes, said: str) -> None:
    """R8: named with its database and key."""
    fill(tmp_path)
    key = spoil(tmp_path, database)

    for _ in range(2):
        (problem,) = check(tmp_path).problems
        assert problem.startswith(f"{database.decode()} {key.hex()}: ")
        assert said in problem


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        (schema.QUEUES, ["its queue is not there"] * 3),
        (schema.ADDRESSES, ["its address is not there"]),
        (schema.MESSAGES, ["its message is missing"]),
        (schema.SHARES, ["the count of a shared message is missing"]),
        (schema.REFERENCES, ["there is no reference at this place"]),
    ],
)
def test_a_missing_value_is_missed(tmp_path: Path, database: bytes, expected: list[str]) -> None:
    """What refers to nothing is a problem, even if every checksum is right."""
    fill(tmp_path)
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
    with World(tmp_path):
        pass

    assert check(tmp_path).damaged == [f"references {key.hex()}"]


@pytest.mark.parametrize(
    ("database", "key", "value", "said"),
    [
        (schema.META, schema.NEXT_MESSAGE_ID, schema.U64.pack(1), "its message id may be given again"),
        (schema.META, schema.NEXT_QUEUE_ID, schema.U32.pack(1), "its id may be given again"),
        (schema.MARKS, schema.U32.pack(1), schema.U64.pack(1), "its sequence may be given again"),
        (schema.MARKS, schema.U32.pack(1), b"", "it is no number"),
        (schema.META, schema.NEXT_QUEUE_ID, b"", "it is no number"),
        (schema.SHARES, schema.U64.pack(77), schema.U32.pack(1), "its message is missing"),
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
