"""A listener that reports the backlog of each queue after each batch of a streaming query.

    spark.streams.addListener(BacklogListener())

Without a function to call it logs one line for each queue, at INFO. Spark reports progress only when a batch was run.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from artemis_py.spark.lag import SourceBacklog, backlog

logger: Final = logging.getLogger(__name__)

Report = Callable[[str, Sequence[SourceBacklog]], None]
"""Called with the name of the query, or its id, and the backlog of each queue."""


def log_backlog(query: str, found: Sequence[SourceBacklog]) -> None:
    """Log the backlog of each queue."""
    for one in found:
        logger.info("backlog: query=%s address=%s queue=%s behind=%d", query, one.address, one.queue, one.behind)


class BacklogListener(StreamingQueryListener):  # type: ignore[misc]
    """Reporter of what each query of a session has not read yet, for sources of this connector."""

    def __init__(self, report: Report = log_backlog) -> None:
        self._report: Final = report

    def onQueryProgress(self, event: Any) -> None:
        """Report the backlog after a batch: what was in the queues when it was planned, less what it has read."""
        progress = event.progress
        for source in progress.sources:
            found = backlog(source.endOffset, source.latestOffset)
            if found:
                self._report(progress.name or str(progress.id), found)

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Do nothing."""
