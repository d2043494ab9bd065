"""Random numbers and identifiers of one broker.

The core has no other source of randomness, so a seed makes a run repeatable: a simulation gets the same identifiers and
the same delays each time. Without a seed, identifiers come from the operating system, because the name of a temporary
queue is all that another client would have to guess. Passwords and logins do not use this module (`security/`).
"""

import random
from uuid import UUID, uuid4


class Entropy:
    """Random numbers and identifiers; repeatable if there is a seed, for tests and simulations only."""

    def __init__(self, seed: int | None = None) -> None:
        self._random: random.Random = random.Random(seed)
        self._is_repeatable: bool = seed is not None

    def random(self) -> float:
        """Return a number in [0, 1), for uses that need no secrecy."""
        return self._random.random()

    def uuid(self) -> str:
        """Return a random UUID (version 4) as text."""
        if self._is_repeatable:
            return str(UUID(int=self._random.getrandbits(128), version=4))
        return str(uuid4())
