"""Retroactive addresses: a queue that is created begins with the last messages of its address (artemis-model §3.11).

With `retroactive-message-count` n an address has a history: two ring queues of n messages, one for each routing type,
on an internal address, and a binding that fills them (`history`). A new queue gets the history of its routing type, as
far as its filter matches (`catching_up`). Both are made with the address, or when its settings ask for them, and end
with it or with the setting.
"""

from typing import Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.queues.queue import Queue, queues_of
from artemis_py.core.queues.rules.ring import shrink
from artemis_py.core.routing.companion import Companion
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.background import SLICE_MESSAGES, Steps
from artemis_py.core.runtime.events import HistoryRefused
from artemis_py.core.runtime.meter import QUEUE_UNITS
from artemis_py.core.services.catching_up import AT_ONCE, SPACE, CatchUp, read_record
from artemis_py.core.services.history import History, HistoryNames, HistoryReader, ring_config
from artemis_py.errors import QueueExists, Refusal

BOTH_TYPES: Final = frozenset(RoutingType)
NO_LONGER: Final = "its address keeps no history any more"


class Retroactive(Companion):
    """The histories of all retroactive addresses of a domain, and the queues that are catching up."""

    def __init__(self, domain: Domain) -> None:
        """Begin at once if nothing is to be restored; otherwise with `restore`."""
        self.domain: Final = domain
        self._prefix: Final = domain.options.internal_naming_prefix
        self._histories: Final[dict[str, History]] = {}
        """By name of the address."""
        self._ending: Final[dict[str, History]] = {}
        """Histories that are to be deleted when no queue needs them any more, by name of the internal address."""
        self._catching_up: Final[dict[Queue, CatchUp]] = {}
        self._is_active = not domain.storage.is_durable
        self._is_following = False
        self._must_follow = False
        domain.companions.append(self)
        domain.settings.on_change(self._follow_settings)

    def history(self, address: str) -> History | None:
        """Return the history of an address; None if it keeps none."""
        return self._histories.get(address)

    @property
    def catching_up(self) -> int:
        """Number of queues that do not have all of their history yet."""
        return len(self._catching_up)

    def name_of_waiting(self, queue: Queue) -> str:
        """Return the name of the queue for what comes while a queue is catching up."""
        return f"{self._prefix}{queue.id}.queue.waiting.retro"

    # -- start ------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Continue with what the store had; called once, when its addresses and queues exist."""
        self._is_active = True
        domain = self.domain
        for address in list(domain.addresses.values()):
            names = HistoryNames(self._prefix, address.name)
            if names.address in domain.addresses:
                self._try(address, self._bind, address, names)
        needed = self._resume()
        for address in list(domain.addresses.values()):
            # An earlier run may have had another prefix.
            if address.internal and address.name.endswith(".address.retro"):
                self._remove_left_over(address, needed)
        for history in self._histories.values():
            for ring in (history.multicast, history.anycast):
                shrink(ring)
        for address in list(domain.addresses.values()):
            self._check(address)

    def _resume(self) -> set[str]:
        """Continue to copy; return the names of the queues that this needs."""
        domain = self.domain
        by_id = {queue.id: queue for queue in domain.queues.values()}
        needed: set[str] = set()
        for key, value in domain.records.load_records(SPACE):
            id, ring_name, position, upto, excess, waiting_name = read_record(key, value)
            queue, ring = by_id.get(id), domain.queues.get(ring_name)
            if queue is None or ring is None:
                domain.records.save_record(SPACE, key, None)
                continue
            catch_up = CatchUp(self, queue, HistoryReader(ring, position, upto), excess)
            catch_up.waiting = domain.queues.get(waiting_name)
            needed |= {ring_name, waiting_name}
            self._begin(catch_up)
        return needed

    def _remove_left_over(self, retro: Address, needed: set[str]) -> None:
        """Remove what belongs to nothing: an address that is gone, a queue that has caught up."""
        rings = {name for each in self._histories.values() for name in (each.multicast.name, each.anycast.name)}
        for queue in queues_of(retro):
            if queue.name not in rings and queue.name not in needed:
                self.domain.delete_queue(queue.name, force=True, reason=NO_LONGER)
        if not retro.bindings:
            self.domain.delete_address(retro.name, reason=NO_LONGER)

    # -- histories --------------------------------------------------------------------------------------------

    def address_added(self, address: Address) -> None:
        """Give a new address its history."""
        if self._is_active:
            self._check(address)

    def address_removed(self, address: Address) -> None:
        """Delete the history of an address."""
        history = self._histories.pop(address.name, None)
        if history is not None:
            self._end(history)

    def _follow_settings(self) -> None:
        """Adapt all addresses to changed settings, in slices."""
        self._must_follow = True
        if self._is_active and not self._is_following:
            self._is_following = True
            self.domain.dispatcher.slices.start(self._follow())

    def _follow(self) -> Steps:
        left = SLICE_MESSAGES
        while self._must_follow:
            self._must_follow = False
            for address in list(self.domain.addresses.values()):
                if not address.is_deleted:
                    left -= 3 * QUEUE_UNITS if self._check(address) else 1
                if left <= 0:
                    left = SLICE_MESSAGES
                    yield None
        self._is_following = False
        return None

    def _check(self, address: Address) -> bool:
        """Create, resize or delete the history of an address as its settings say; return whether they differed."""
        size = self._size_for(address)
        history = self._histories.get(address.name)
        if history is None:
            # If queues still copy from an earlier history, the next one begins when the last of them has everything.
            if size > 0 and HistoryNames(self._prefix, address.name).address not in self._ending:
                self._try(address, self._create, address, size)
            return size > 0
        if size == history.size:
            return False
        if size == 0:
            del self._histories[address.name]
            self.domain.unbind(history)
            self._end(history)
        else:
            history.size = size
            for ring in (history.multicast, history.anycast):
                self.domain.update_queue(ring.name, {"ring_size": size})
        return True

    def _size_for(self, address: Address) -> int:
        """Return how long the history of an address is to be; temporary and internal addresses have none."""
        if address.temporary or address.internal or address.name.startswith(self._prefix):
            return 0
        return address.settings.retroactive_message_count

    def _try(self, address: Address, action: object, *arguments: object) -> None:
        assert callable(action)
        try:
            action(*arguments)
        except Refusal as refusal:
            self.domain.events.emit(HistoryRefused(address.name, str(refusal)))

    def _create(self, address: Address, size: int) -> None:
        """Create what is missing. Raises Refusal if a name is too long, or belongs to something else."""
        domain = self.domain
        names = HistoryNames(self._prefix, address.name)
        for name in (names.multicast, names.anycast, names.divert):
            if name in domain.queues or name in domain.others:
                raise QueueExists(f"'{name}' is the name of another queue or divert")
        retro = domain.create_address(names.address, BOTH_TYPES, internal=True)
        try:
            domain.create_queue(ring_config(names.multicast, retro.name, RoutingType.MULTICAST, size))
            domain.create_queue(ring_config(names.anycast, retro.name, RoutingType.ANYCAST, size))
            self._bind(address, names)
        except Refusal:
            domain.delete_address(retro.name, force=True, reason=NO_LONGER)
            raise

    def _bind(self, address: Address, names: HistoryNames) -> None:
        """Have an address fill its rings. Raises Refusal if they are not there."""
        domain = self.domain
        retro = domain.address(names.address)
        multicast, anycast = domain.queue(names.multicast), domain.queue(names.anycast)
        if not retro.internal or multicast.address is not retro or anycast.address is not retro:
            raise QueueExists(f"'{names.multicast}' or '{names.anycast}' is the name of another queue")
        retro.sets_aside = True
        size = multicast.settings.ring_size
        history = History(names.divert, address, multicast, anycast, size)
        domain.bind(history)
        self._histories[address.name] = history

    def _end(self, history: History) -> None:
        """Delete the rings of a history that is filled no more, or have that done when the last queue has its copy."""
        retro = history.multicast.address
        if any(each.reader.ring.address is retro for each in self._catching_up.values()):
            self._ending[retro.name] = history
            return
        self._ending.pop(retro.name, None)
        if not retro.is_deleted:
            self.domain.delete_address(retro.name, force=True, reason=NO_LONGER)
        if not history.address.is_deleted:
            self._check(history.address)

    # -- queues -----------------------------------------------------------------------------------------------

    def queue_created(self, queue: Queue) -> None:
        """Give a new queue the history of its address."""
        history = self._histories.get(queue.address.name)
        if history is None or queue.internal:
            return
        ring = history.ring(queue.routing_type)
        if ring.waiting_count == 0:
            return
        excess = max(0, ring.waiting_count - ring.settings.ring_size)
        catch_up = CatchUp(self, queue, HistoryReader(ring, 0, ring.next_sequence - 1), excess)
        catch_up.begin()
        self._catching_up[queue] = catch_up
        catch_up.step(AT_ONCE)
        if not catch_up.is_over:
            catch_up.save()
            self.domain.dispatcher.slices.start(catch_up.copy_all())

    def queue_removed(self, queue: Queue) -> None:
        """Stop copying to a queue that is gone."""
        catch_up = self._catching_up.get(queue)
        if catch_up is not None:
            self.end(catch_up)

    def _begin(self, catch_up: CatchUp) -> None:
        catch_up.begin()
        self._catching_up[catch_up.queue] = catch_up
        self.domain.dispatcher.slices.start(catch_up.copy_all())

    def end(self, catch_up: CatchUp) -> None:
        """Note that a queue has caught up, or is gone."""
        del self._catching_up[catch_up.queue]
        catch_up.end()
        ring = catch_up.reader.ring
        history = self._ending.get(ring.address.name)
        if history is not None:
            self._end(history)
        elif not ring.is_deleted:
            shrink(ring)
