"""Faults that are planted into large messages, to see the simulation find them; see `plants`."""

from artemis_py.cluster.envelope import Envelope
from artemis_py.cluster.mesh import Mesh
from artemis_py.cluster.peer import Peer
from artemis_py.cluster.pieces import IncomingBulk, OutgoingBulk
from artemis_py.core.messages.large_body import LargeBody, LargeReader
from artemis_py.core.queues.reference import Reference
from artemis_py.core.runtime.carrier import Lane
from tests.cluster.plants import Planted


class PlantedBulk(Planted):
    """A mesh with other lanes for large messages."""

    outgoing_class: type[OutgoingBulk] = OutgoingBulk
    incoming_class: type[IncomingBulk] = IncomingBulk

    class peer_class(Peer):
        def __init__(self, mesh: Mesh, number: int) -> None:
            super().__init__(mesh, number)
            assert isinstance(mesh, PlantedBulk)
            self.bulk = mesh.outgoing_class(self)
            self.incoming_bulk = mesh.incoming_class(self)
            self.incoming[Lane.BULK] = self.incoming_bulk


class MarkBeforeFile(PlantedBulk):
    """The mark is set when a body begins to arrive, and not when its file is complete and about to be synced."""

    class incoming_class(IncomingBulk):
        def _begin(self, number: int, content: bytes) -> None:
            super()._begin(number, content)
            if self._body is not None:
                self.taken(number)


class UnsyncedFile(PlantedBulk):
    """The commit of a message and its mark does not wait for the sync of the file."""

    class incoming_class(IncomingBulk):
        def _finish(self, number: int, envelope: Envelope, body: LargeBody | None) -> None:
            if body is not None:
                body.sync = lambda: False  # type: ignore[attr-defined]
            super()._finish(number, envelope, body)


class LostPiece(PlantedBulk):
    """A body that begins again does so with its second piece, and the taker does not compare it with its checksum."""

    class outgoing_class(OutgoingBulk):
        def _next_piece(self, reader: LargeReader) -> bytes | None:
            channel = self.channel
            assert channel is not None
            begun: set[tuple[int, int]] = self._peer.mesh.__dict__.setdefault("pieces_begun", set())
            is_first = self._left == channel.claims[self._sent].message.large.size  # type: ignore[union-attr]
            is_again = (channel.id, self._sent) in begun
            if is_first:
                begun.add((channel.id, self._sent))
            if is_first and is_again and self._left > 1_000:
                # As long as it was, so that only its content tells.
                first = super()._next_piece(reader)
                return None if first is None else first[:1] + bytes(len(first) - 1)
            return super()._next_piece(reader)

    class incoming_class(IncomingBulk):
        def _finish(self, number: int, envelope: Envelope, body: LargeBody | None) -> None:
            if body is not None and envelope.message.large is not None:
                envelope.message.large.checksum = body.checksum
            super()._finish(number, envelope, body)


class FileLeftBehind(PlantedBulk):
    """What has come of a body stays when the connection ends."""

    class incoming_class(IncomingBulk):
        def end(self) -> None:
            self._body = None
            super().end()


class EarlyWithdrawal(PlantedBulk):
    """The peer passes over a message before the end of its claim is in the store."""

    class outgoing_class(OutgoingBulk):
        def _withdraw(self, number: int, reference: Reference, outcome: int) -> None:
            super()._withdraw(number, reference, outcome)
            self._withdrawals -= 1
            self.pump()

        def _withdrawn(self) -> None:
            self._withdrawals += 1
            super()._withdrawn()


LARGE_PLANTS: list[type[Planted]] = [MarkBeforeFile, UnsyncedFile, LostPiece, FileLeftBehind]
