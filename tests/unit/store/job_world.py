"""A broker with jobs on a folder, and a client of it."""

from datetime import UTC
from pathlib import Path

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.job import Timing
from artemis_py.core.services.jobs import Jobs
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import START_MS
from tests.unit.store.world import World, bodies

# Two in memory, the others on disk only.
SETTINGS = {"#": AddressSettings(max_read_page_messages=2)}


class Life:
    """A broker on a folder, ended and started again; time goes on meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ms = START_MS
        self.open()

    def open(self) -> None:
        self.world = World(self.folder, SETTINGS)
        self.world.domain.dispatcher.now_ms = self.now_ms
        self.world.services.branches.restore()
        self.found = self.jobs.restore()
        self.jobs.zone = UTC
        self.world.queue("q")
        self.session = self.world.services.sessions.open(Subject("tester"), "client")
        self.world.settle()

    @property
    def jobs(self) -> Jobs:
        return self.world.services.jobs

    def restart(self) -> None:
        self.world.settle()
        self.world.stop()
        self.open()

    def crash(self) -> None:
        """Without what was not committed."""
        self.world.crash()
        self.open()

    def schedule(
        self, text: str, transaction: Transaction | None = None, durable: bool = True, **timing: int | str
    ) -> None:
        message = plain_message("q", MessageView(body=text), durable)
        producer = self.session.producer("q", RoutingType.ANYCAST)
        self.jobs.schedule(producer, message, Timing.of(**timing), text, transaction)  # type: ignore[arg-type]

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, and happen what was planned for it, without a commit."""
        self.now_ms += milliseconds
        dispatcher = self.world.domain.dispatcher
        dispatcher.now_ms = self.now_ms
        while (due_ms := dispatcher.next_deadline_ms()) is not None and due_ms <= self.now_ms:
            dispatcher.handle_deadlines()

    def wait(self, milliseconds: int) -> list[object]:
        """Let time pass and everything become durable; return what waits in the queue."""
        self.pass_time(milliseconds)
        self.world.settle()
        return self.waiting()

    def waiting(self) -> list[object]:
        return bodies(self.world.queue("q"))

    def records(self) -> int:
        return len(self.world.store.load_records("jobs"))
