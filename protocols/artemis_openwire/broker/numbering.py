"""Numbers of deliveries, by which clients acknowledge them (`brokerSequenceId`)."""

from typing import Final

from artemis_py.protocol import Host

# Numbers for each millisecond and each consumer: more than can be delivered.
_SPAN_BITS: Final = 20


class Numbering:
    """Gives each consumer a place to begin, so that no number names two deliveries.

    A client that reconnects may acknowledge deliveries of its old connection, under the name of its new consumer.
    """

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self._last: int = 0

    def begin(self) -> int:
        """Return the number of a new consumer's first delivery; later ones follow without a gap."""
        self._last = max(self._last + 1, self._host.now_ms)
        return self._last << _SPAN_BITS
