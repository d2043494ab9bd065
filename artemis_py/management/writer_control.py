"""Management for a job that writes in epochs: the resource `writer`.

It needs no permission to manage. A client reaches only what its own user has staged, and `commitEpoch` needs the
permission to send to each address it routes to.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from artemis_py.core.runtime.background import Steps
from artemis_py.core.services.staging import Staging
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest
from artemis_py.management.control import Control, Kind, Operation, Parameter, Row, free

WRITER: Final = "writer"

NAME = Parameter("writer", Kind.TEXT)
EPOCH = Parameter("epoch", Kind.NUMBER)
ATTEMPTS = Parameter("attempts", Kind.OBJECT)
ABORTED = Parameter("attempts", Kind.TEXTS)


class WriterControl(Control):
    """One client's staged writes, for the duration of one request."""

    def __init__(self, staging: Staging, session: Session) -> None:
        super().__init__(WRITER)
        self._staging: Final = staging
        self._session: Final = session

    def commit_epoch(self, writer: str, epoch: int, attempts: Mapping[str, object]) -> Steps:
        """Route the messages of `{attempt: number of messages}`; the result is false if that was done before.

        Raises InvalidRequest, NotAuthorized or NoSuchAddress; nothing is routed then.
        """
        counts: dict[str, int] = {}
        for attempt, count in attempts.items():
            if not isinstance(count, int) or isinstance(count, bool):
                raise InvalidRequest(f"attempt {attempt!r} needs the number of its messages")
            counts[attempt] = count
        return self._staging.commit(self._session, writer, epoch, counts)

    def abort_epoch(self, writer: str, epoch: int) -> Steps:
        """Discard what is staged for an epoch and all earlier ones; the result is the number of attempts."""
        return self._staging.abort(self._session, writer, epoch)

    def abort_attempts(self, writer: str, epoch: int, attempts: Sequence[str]) -> Steps:
        """Discard only what these attempts have staged; the result is the number of attempts found."""
        return self._staging.abort(self._session, writer, epoch, frozenset(attempts))

    def last_epoch(self, writer: str) -> int:
        """Return the epoch that was committed last; -1 if none was."""
        return self._staging.last_epoch(self._session.subject.name, writer)

    operations: ClassVar[Mapping[str, Row]] = {
        "commitEpoch": free(Operation(commit_epoch, NAME, EPOCH, ATTEMPTS)),
        "abortEpoch": free(Operation(abort_epoch, NAME, EPOCH), Operation(abort_attempts, NAME, EPOCH, ABORTED)),
        "lastEpoch": free(Operation(last_epoch, NAME)),
    }
