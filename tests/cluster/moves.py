"""How often each message goes from one node to another, and when."""

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from artemis_py.cluster.envelope import Envelope
from tests.cluster.simulation import Simulation

if TYPE_CHECKING:
    from tests.cluster.node import Node


class Moves(Simulation):
    """A simulation that notes each move of each message."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        self.times: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        """Times at which a message has arrived anywhere, by its queue (empty for a copy) and body."""
        self.on_arrival = self.note

    def note(self, _: "Node", envelope: Envelope) -> None:
        """Count a message."""
        self.times[envelope.queue, str(envelope.message.view.body)].append(self.now)

    def most(self) -> int:
        """Moves of the message that has moved most often."""
        return max(map(len, self.times.values()), default=0)
