"""Chance is passed in: a seed repeats a run."""

from uuid import UUID

from artemis_py.core.runtime.entropy import Entropy


def test_a_seed_gives_the_same_identifiers_and_numbers() -> None:
    """A failure that a simulation found is repeated by its seed."""
    one, same, other = Entropy(7), Entropy(7), Entropy(8)

    drawn = [(entropy.uuid(), entropy.random(), entropy.uuid()) for entropy in (one, same, other)]

    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_identifiers_are_random_uuids() -> None:
    """RFC 9562, version 4, with a seed and without."""
    for entropy in (Entropy(), Entropy(1)):
        first, second = UUID(entropy.uuid()), UUID(entropy.uuid())
        assert (first.version, second.version) == (4, 4)
        assert first != second


def test_without_a_seed_nothing_is_repeated() -> None:
    """Names of temporary queues are not to be guessed."""
    assert Entropy().uuid() != Entropy().uuid()
