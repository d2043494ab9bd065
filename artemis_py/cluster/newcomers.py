"""New subscriptions that get retained messages: what other nodes retained before they were made must be found.

A client that retains a message at one node, and on the answer has another client subscribe at a second node, expects
that the subscriber gets it. The message may be on its way then. So the node of a subscriber asks the others, and looks
up retained messages when they have answered, or after 5 s:

    subscriber's node B ── interest, question 7 ─►  node A
                        ◄─ retained messages ─────  all that were stored or deleted before the question
                        ◄─ answer 7 ──────────────
                        ◄─ copies ────────────────  those that were on their way, for other subscriptions of B
      looks up, answers its client

What A retains after the question comes as a copy, because A knows the subscription, and is not looked up. Nor is what
comes as a copy before the look-up. What A has not told when the time is over is given to the subscription when it
comes, until A has answered or is gone. Later subscriptions do not wait for A until then.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from artemis_py.cluster.announcements import SEEN_LIMIT_MS
from artemis_py.cluster.hello import RETAINED_ASKED
from artemis_py.cluster.patterns import Patterns
from artemis_py.cluster.placement import may_cover
from artemis_py.cluster.records import AskedRetained
from artemis_py.core.messages.message import Message
from artemis_py.core.runtime.announcement import Announcement
from artemis_py.core.runtime.carrier import Lane
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.services.retained import Newcomer

if TYPE_CHECKING:
    from artemis_py.cluster.mesh import Mesh
    from artemis_py.cluster.peer import Peer

MAX_COPIES: Final = 10_000
"""Copies that are remembered, by their hashes, while there are questions: some 2 MB. Beyond that the first ones are
forgotten, and may come twice to a new subscription."""

MAX_LATE: Final = 1_000
"""Questions that are remembered after the look-up, because a peer has not answered; the first ones are forgotten then.
Each iteration of the loop asks one at most."""


UNTOLD: Final = -1
"""In place of a number: the peer has not answered."""


UNASKED: Final = 1 << 62
"""In place of the number of a question."""


class Question:
    """What peers are asked for the subscriptions of one iteration."""

    def __init__(self, number: int, peers: Iterable["Peer"], patterns: Patterns[Newcomer], copied: int) -> None:
        self.number: Final = number
        self.unasked: Final[dict[Peer, None]] = dict.fromkeys(peers)
        """Peers that were not told of the subscriptions yet."""
        self.peers: Final[dict[Peer, int]] = dict.fromkeys(self.unasked, UNTOLD)
        """Peers whose copies, or answer, are not here, with the number of the last copy before the answer."""
        self.answered: Final[set[Peer]] = set()
        """Peers that have answered: what they retain after that comes as a copy."""
        self.copied: Final = copied
        """How many copies had come before."""
        self.newcomers: Final[list[Newcomer]] = []
        self.patterns: Final = patterns
        self.live: Final[dict[str, None]] = {}
        """Topics with a message that was retained behind the question, so that it comes as a copy."""
        self.announcement: Final = Announcement()
        """What the answers to the clients wait for."""
        self.others: Final[list[Announcement]] = []
        """What they have to wait for besides."""
        self.timer: Timer | None = None
        self.is_late: bool = False
        """Whether retained messages were looked up before all peers had answered."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Newcomers:
    """Subscriptions that wait until peers have told what is retained."""

    def __init__(self, mesh: "Mesh") -> None:
        self._mesh: Final = mesh
        self._questions: Final[dict[int, Question]] = {}
        self._current: Question | None = None
        """The question of this iteration."""
        self._number = 0
        self._slow: Final[set[Peer]] = set()
        """Peers that a look-up was made without, and that have not answered since."""
        self._comparing: Final[dict[Peer, int]] = {}
        """Peers that were told, or asked, of stamps, with the number of the first question behind that: answers to
        earlier ones do not count. `UNASKED`: it was not asked yet."""
        self._copied = 0
        self._copies: Final[dict[tuple[str, int], int]] = {}
        """Copies by topic and a hash of their content: the count of all copies up to the last of them."""

    @property
    def are_there(self) -> bool:
        """Whether any subscription waits, or may still be given something."""
        return bool(self._questions)

    def introduce(self, newcomer: Newcomer) -> bool:
        """Let a subscription wait for what peers have to tell; False: there is nothing to wait for."""
        mesh = self._mesh
        if mesh.is_reserved(newcomer.pattern) or not may_cover(mesh, newcomer.pattern):
            return False
        current = self._current
        if current is None:
            peers = [peer for peer in mesh.peers.values() if peer.is_taking and _answers(peer)]
            if not peers or not mesh.config.max_hops:
                return False
            self._number += 1
            current = Question(self._number, peers, Patterns(mesh.domain.options.wildcards), self._copied)
            self._current = self._questions[self._number] = current
            if self._is_slow(current):
                self._become_late(current)
            else:
                current.timer = mesh.dispatcher.after(SEEN_LIMIT_MS, lambda: self._time_is_over(current))
        current.patterns.add(newcomer.pattern, newcomer)
        if current.is_late:
            newcomer.look_up(())
            return True
        current.newcomers.append(newcomer)
        board = mesh.domain.dispatcher.announcements
        if board.fresh is not None and board.fresh is not current.announcement:
            current.others.append(board.fresh)
        board.fresh = current.announcement
        return True

    def flushed(self) -> None:
        """Ask the peers that know of the subscriptions by now."""
        self._current = None
        if not self._questions and not self._comparing:
            return
        board = self._mesh.domain.dispatcher.announcements
        for question in self._questions.values():
            if board.fresh is question.announcement:
                board.fresh = None
            for peer in list(question.unasked):
                if peer.telling.is_over:
                    del question.unasked[peer]
                    peer.say(AskedRetained(question.number))
        for peer in [peer for peer, number in self._comparing.items() if number == UNASKED]:
            self._number += 1
            self._comparing[peer] = self._number
            peer.say(AskedRetained(self._number))
        for question in list(self._questions.values()):
            for peer, number in list(question.peers.items()):
                if number != UNTOLD and _has_copies(peer, number):
                    self._need_not_wait(question, peer)

    # -- what happens meanwhile --------------------------------------------------------------------------------------

    def changed_here(self, topic: str) -> None:
        """Note that a client here has retained or deleted a message: newcomers have had it as others have."""
        # Those that come later in this iteration have not.
        self._current = None
        for question in self._questions.values():
            if not question.is_late:
                question.live[topic] = None

    def told(self, peer: "Peer", topic: str, message: Message | None) -> None:
        """Note what a peer has told of a topic: a message, or that there is none."""
        for question in self._questions.values():
            if question.is_late:
                if question.peers.get(peer) == UNTOLD and message is not None and not self._has_come(question, message):
                    for newcomer in question.patterns.match(topic):
                        newcomer.give(message)
            elif peer in question.answered:
                question.live[topic] = None
            else:
                question.live.pop(topic, None)

    def copied(self, message: Message) -> None:
        """Note a copy, which new subscriptions get as others do: what is retained of it need not be looked up."""
        self._copied += 1
        key = (message.address, hash(message.data))
        self._copies.pop(key, None)
        self._copies[key] = self._copied
        if len(self._copies) > MAX_COPIES:
            del self._copies[next(iter(self._copies))]

    def _has_come(self, question: Question, message: Message) -> bool:
        """Tell whether a message came as a copy since a question was asked."""
        return self._copies.get((message.address, hash(message.data)), 0) > question.copied

    def compared(self, peer: "Peer") -> None:
        """Note that a peer was told or asked of stamps, as after a connection: it tells messages behind its answer."""
        if any(peer in question.peers for question in self._questions.values()):
            self._comparing[peer] = UNASKED

    def answered(self, peer: "Peer", number: int, copies: int) -> None:
        """Note that a peer has told everything that was there when it heard a question, but perhaps not all copies."""
        if number < self._comparing.get(peer, 0):
            return
        self._slow.discard(peer)
        for question in self._questions.values():
            if question.number <= number and question.peers.get(peer) == UNTOLD:
                question.peers[peer] = copies
                question.answered.add(peer)
        self._mesh.mark(peer)

    def peer_lost(self, peer: "Peer") -> None:
        """Wait for a peer no longer."""
        self._slow.discard(peer)
        self._comparing.pop(peer, None)
        for question in list(self._questions.values()):
            self._need_not_wait(question, peer)

    def _need_not_wait(self, question: Question, peer: "Peer") -> None:
        question.unasked.pop(peer, None)
        question.peers.pop(peer, None)
        if not question.peers:
            self._questions.pop(question.number, None)
            if question is self._current:
                self._current = None
        if self._is_slow(question) and not question.is_late:
            self._look_up(question)
            self._become_late(question)
        if not self._questions:
            self._copies.clear()

    def _is_slow(self, question: Question) -> bool:
        """Tell whether all that have not answered are peers that are not waited for."""
        return self._slow.issuperset(question.peers)

    def _time_is_over(self, question: Question) -> None:
        self._slow.update(question.peers)
        question.announcement.is_late = True
        self._look_up(question)
        self._become_late(question)

    def _become_late(self, question: Question) -> None:
        """Give its subscriptions what comes from now on."""
        question.is_late = True
        for each in list(islice(self._questions.values(), max(len(self._questions) - MAX_LATE, 0))):
            if each.is_late:
                del self._questions[each.number]

    def _look_up(self, question: Question) -> None:
        if question.timer is not None:
            question.timer.cancel()
        retained = self._mesh.retained.messages
        for topic in {topic for (topic, _), number in self._copies.items() if number > question.copied}:
            message = retained.get(topic)
            if message is not None and self._has_come(question, message):
                question.live[topic] = None
        for newcomer in question.newcomers:
            newcomer.look_up(question.live)
        _end_behind(question.announcement, question.others)


def _answers(peer: "Peer") -> bool:
    """Tell whether a peer answers such questions; an earlier version does not."""
    return peer.hello is not None and RETAINED_ASKED in peer.hello.features


def _has_copies(peer: "Peer", number: int) -> bool:
    """Tell whether the copies of a peer have come up to this number."""
    channel = peer.incoming[Lane.COPIES].channel
    return channel is None or peer.mesh.marks.get(peer.node_id, channel) >= number


def _end_behind(announcement: Announcement, others: list[Announcement]) -> None:
    """End an announcement when others have ended."""
    for other in others:
        if not other.is_over:
            other.when_over(lambda: _end_behind(announcement, others))
            return
    if not announcement.is_over:
        announcement.end()
