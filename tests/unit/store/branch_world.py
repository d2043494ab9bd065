"""A broker with prepared branches on a folder, and a client of it."""

from pathlib import Path

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.queues.consumer import ACCEPTED
from artemis_py.core.queues.reference import Reference
from artemis_py.core.routing.transaction import Transaction
from artemis_py.core.runtime.access import Subject
from artemis_py.core.services.branches import Branches
from artemis_py.core.services.prepared_messages import PREPARED
from artemis_py.core.services.xid import Xid
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.address_settings import AddressSettings
from tests.core_harness import Recorder
from tests.unit.store.world import World, bodies

SETTINGS = {"#": AddressSettings(max_read_page_messages=2, max_delivery_attempts=-1)}
ONE, OTHER = Xid(7, b"global", b"one"), Xid(7, b"global", b"other")


class Life:
    """A broker on a folder, ended and started again, and a client of it."""

    def __init__(self, folder: Path, settings: dict[str, AddressSettings] | None = None) -> None:
        self.folder = folder
        self.settings = SETTINGS if settings is None else settings
        self.open()

    def open(self) -> None:
        self.world = World(self.folder, self.settings)
        self.found = self.branches.restore()
        self.session = Session(self.world.domain, Subject("tester"), "client")
        self.world.settle()

    @property
    def branches(self) -> Branches:
        return self.world.services.branches

    def restart(self) -> None:
        self.world.settle()
        self.world.stop()
        self.open()

    def crash(self) -> None:
        self.world.settle()
        self.world.crash()
        self.open()

    def send(
        self, transaction: Transaction | None, *texts: str, to: str = "q", durable: bool = True, **options: object
    ) -> None:
        producer = self.session.producer(to)
        for text in texts:
            producer.send(make(text, to, durable, **options), transaction)

    def receive(self, name: str, count: int) -> list[Reference]:
        """The next deliveries to a new consumer of the session."""
        recorder = Recorder()
        self.session.consume(self.world.queue(name), recorder).grant(count)
        self.world.settle()
        return recorder.take()

    def prepare(self, xid: Xid, *texts: str, settle: int = 0) -> None:
        """A branch that sends to q and settles as many of what is in p."""
        transaction = self.branches.start(self.session, xid)
        self.send(transaction, *texts)
        if settle:
            for reference in self.receive("p", settle):
                assert transaction.settle(reference, ACCEPTED)
        assert self.branches.prepare(self.session, xid)
        self.session.close(failed=True)
        self.session = Session(self.world.domain, Subject("tester"), "client")
        self.world.settle()

    def commit(self, xid: Xid) -> None:
        self.branches.commit(self.session, xid)
        self.world.settle()

    def rollback(self, xid: Xid) -> None:
        self.branches.rollback(self.session, xid)
        self.world.settle()

    def bodies(self, name: str) -> list[object]:
        return bodies(self.world.queue(name))

    def left(self) -> tuple[int, int, int]:
        """Messages in the queue of prepared ones, records, and what tables count beyond queues and addresses."""
        queue = self.world.domain.queues.get(PREPARED)
        records = self.world.store.load_records("branches")
        return 0 if queue is None else queue.message_count, len(records), len(self.branches.prepared())


def make(text: str, address: str = "q", durable: bool = True, **options: object) -> Message:
    message = plain_message(address, MessageView(body=text), durable)
    for name, value in options.items():
        setattr(message, name, value)
    return message
