"""What a mesh is told of the queues of this broker."""

from typing import TYPE_CHECKING, Final

from artemis_py.core.queues.queue import Queue
from artemis_py.core.routing.companion import Companion

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh


class QueueNews(Companion):
    """Tells a mesh of queues that come, change and go. Not the mesh itself, because a compiled class has one base."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh: Final = mesh

    def queue_created(self, queue: Queue) -> None:
        """Share a new queue."""
        self._mesh.queue_created(queue)

    def queue_updated(self, queue: Queue) -> None:
        """Tell what a queue wants now."""
        self._mesh.queue_updated(queue)

    def queue_removed(self, queue: Queue) -> None:
        """Tell peers that a queue is gone."""
        self._mesh.queue_removed(queue)
