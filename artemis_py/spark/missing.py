"""Sequence numbers that were not delivered, and what the broker says about them.

A gap in the numbers proves nothing by itself, so the queue is asked. A message that is in the queue has to be read
again; a number that is not in it belongs to a message that is gone, or was never given. Nothing is concluded from what
a link delivered.
"""

import logging
from collections.abc import Sequence
from typing import Final

from attrs import define, field

from artemis_py.spark.connection import Broker, Connection
from artemis_py.spark.errors import DataLoss, Gone, Withheld
from artemis_py.spark.management import Found, Management
from artemis_py.spark.options import ReadOptions
from artemis_py.spark.receiving import Range

logger: Final = logging.getLogger(__name__)

Gaps = Sequence[tuple[int, int]]

NAMED: Final = 5
"""Number of numbers and ranges that an error text names."""


def gaps_of(expected: int, sequences: list[int]) -> list[tuple[int, int]]:
    """Return the ranges missing from `sequences`, which are ascending and begin at `expected` or later."""
    if sequences[0] == expected and sequences[-1] - expected + 1 == len(sequences):
        return []
    gaps = []
    for sequence in sequences:
        if sequence > expected:
            gaps.append((expected, sequence))
        expected = sequence + 1
    return gaps


@define
class Missing:
    """Numbers of a range that were not delivered, as far as it was read."""

    options: ReadOptions
    part: Range
    is_lenient: bool = False
    """Whether messages in the queue that cannot be read are skipped, which is safe because reading removes nothing."""
    gone: list[tuple[int, int]] = field(factory=list)
    count: int = 0
    """Number of messages that are gone."""
    expired: int = 0
    """Number of them that are still in the queue, but expired."""
    _last: Found | None = None

    def check_queue(self, connection: Connection) -> None:
        """Check that this is the broker and the queue that gave the numbers.

        Several brokers may each have a queue of this name, even of this id, with other messages. Raises Elsewhere,
        Gone, Refused, ConnectionLost.
        """
        part = self.part
        if part.node:
            timeout_s = self.options.connection.idle_timeout_s
            if not Management(connection, timeout_s).find(part, [(part.start, part.start)], None).exists:
                raise Gone(f"{part.queue} no longer exists, or was created again")

    def look_up(self, gaps: Gaps) -> None:
        """Ask the queue about missing numbers. Raises Withheld if it has some of the messages, Gone, ConnectionLost."""
        if not gaps:
            return
        options = self.options
        found, is_more_behind = Broker(options.connection).run(
            lambda connection: self._asked(Management(connection, options.connection.idle_timeout_s), gaps)
        )
        self.note(gaps, found, is_more_behind)

    def note(self, gaps: Gaps, found: Found, is_more_behind: bool) -> None:
        """Record the queue's answer about gaps; `is_more_behind`: it has some of the skipped numbers behind the range.

        Raises as `look_up`.
        """
        options, part = self.options, self.part
        if not found.exists:
            raise Gone(f"{part.queue} no longer exists, or was created again")
        if found.count:
            text = f"{found.count} messages did not arrive and are in the queue: {_places(found)}"
            if not self.is_lenient:
                raise Withheld(text)
            logger.warning("passed over, nothing is removed: range=%s %s", part, text)
            return
        if options.selector is not None:
            # It is unknown whether the selector matched the messages that are gone.
            return
        self._last = found
        self.expired += found.expired
        for start, stop in gaps:
            end = found.skipped_around(stop)
            if end > stop == part.stop and not is_more_behind:
                # There is no message behind it either: a crash may have skipped all of these numbers.
                stop = end
            count = stop - start - found.never_given(start, stop)
            if count:
                self.count += count
                self.gone.append((start, min(start + count, part.stop)))

    def _asked(self, management: Management, gaps: Gaps) -> tuple[Found, bool]:
        """Return what the queue has of the gaps, and whether it has some of the skipped numbers behind the range."""
        part, options = self.part, self.options
        found = management.find(part, gaps, options.selector)
        end = found.skipped_around(part.stop)
        if gaps[-1][1] != part.stop or end == part.stop:
            return found, False
        behind = management.find(part, [(part.stop, end)], None)
        return found, behind.count + behind.expired > 0

    def conclude(self) -> None:
        """Conclude the range, which is read. Raises DataLoss if messages of it are gone, and that is an error."""
        if not self.count or self._last is None:
            return
        if self.options.mode == "browse":
            # Its messages belong to other consumers, which may take them at any time.
            logger.info("other consumers took messages: range=%s count=%d", self.part, self.count)
            return
        late = f" ({self.expired} are there, but have expired)" if self.expired else ""
        text = (
            f"{self.count} of {self.part.count} messages of {self.part} are gone: asked for {_listed(self.gone)}, the "
            f"queue no longer has them{late}; of this queue's messages {self._last.left} since the broker started"
        )
        if self.options.fail_on_data_loss:
            raise DataLoss(f"{text} (failOnDataLoss=false continues without them; what is in the queue stays there)")
        logger.warning(text)


def _listed(gone: Sequence[tuple[int, int]]) -> str:
    """Return ranges of numbers as text."""
    texts = [str(start) if stop == start + 1 else f"{start} to {stop - 1}" for start, stop in gone[:NAMED]]
    return ", ".join(texts) + (" and more" if len(gone) > NAMED else "")


def _places(found: Found) -> str:
    """Return some of the messages that are in the queue, and their places, as text."""
    texts = [f"{number} ({place})" for number, place in found.there[:NAMED]]
    return ", ".join(texts) + (" and more" if found.count > NAMED else "")
