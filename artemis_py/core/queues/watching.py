"""What a mesh of brokers is told by queues and by the dispatcher; a broker without one pays a comparison with None."""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Watcher:
    """Told that the consumers of one queue, their credit or what waits for them may have changed.

    Within dispatch nothing may be delivered, added or removed.
    """

    def changed(self) -> None:
        """Note that a consumer has come or left, or that the queue was paused."""
        raise NotImplementedError

    def visited(self) -> None:
        """Note that messages or credit may have come or gone; called for each visit to the queue."""
        raise NotImplementedError

    def gives_up(self, is_forced: bool) -> bool:
        """Note that the clients of this broker have ended a subscription; True: other nodes still need its queue.

        `is_forced`: each node counts its own subscribers, and the last one here has left.
        """
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class TurnListener:
    """Told at the end of each iteration of the loop."""

    def turn_ended(self) -> bool:
        """Act on what has changed: all of it shares a commit of the store with the deliveries of this iteration.

        Returns True if there is more to do in the next one.
        """
        raise NotImplementedError
