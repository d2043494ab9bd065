"""Accounting of messages: in the account of one address, and in that of the whole broker.

A message counts once, with the first queue that takes it, at the address that it was routed through; each further queue
that has it adds a reference.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from artemis_py.core.messages.message import REFERENCE_BYTES
from artemis_py.core.runtime.accounts import MemoryAccount

if TYPE_CHECKING:
    from artemis_py.core.messages.message import Message


class MessageAccount:
    """Counts the messages of one address. `addresses.address` derives from it; messages know only this class."""

    __slots__ = ("account", "broker_account", "emptied", "name")

    def __init__(self, name: str, account: MemoryAccount, broker_account: MemoryAccount) -> None:
        self.name: str = name
        self.account: MemoryAccount = account
        self.broker_account: MemoryAccount = broker_account
        self.emptied: Callable[[str], None] | None = None
        """Called with the name when the last message of the address is gone, in the middle of removing it."""

    @property
    def must_spill(self) -> bool:
        """Whether a message that is not durable goes to disk."""
        return False

    def charge(self, message: "Message") -> None:
        """Count a message that the first queue takes, together with one reference; called once per message."""
        account = self.account
        account.size_bytes += message.size
        account.message_count += 1
        if account.size_bytes >= account.full_bytes or account.message_count >= account.full_messages:
            account.is_full = True
        account = self.broker_account
        account.size_bytes += message.size
        account.message_count += 1
        if account.size_bytes >= account.full_bytes or account.message_count >= account.full_messages:
            account.is_full = True

    def charge_reference(self) -> None:
        """Count one more queue that holds a message that has been charged."""
        account = self.account
        account.size_bytes += REFERENCE_BYTES
        if account.size_bytes >= account.full_bytes:
            account.is_full = True
        account = self.broker_account
        account.size_bytes += REFERENCE_BYTES
        if account.size_bytes >= account.full_bytes:
            account.is_full = True

    def charge_references(self, count: int) -> None:
        """Count so many more queues that hold a message that has been charged."""
        account = self.account
        account.size_bytes += REFERENCE_BYTES * count
        if account.size_bytes >= account.full_bytes:
            account.is_full = True
        account = self.broker_account
        account.size_bytes += REFERENCE_BYTES * count
        if account.size_bytes >= account.full_bytes:
            account.is_full = True

    def discharge_reference(self) -> None:
        """Undo `charge_reference`: one queue removed the message, and others still hold it."""
        account = self.account
        account.size_bytes -= REFERENCE_BYTES
        if account.is_full:
            account.update()
        account = self.broker_account
        account.size_bytes -= REFERENCE_BYTES
        if account.is_full:
            account.update()

    def discharge_references(self, count: int) -> None:
        """Undo `charge_reference` so many times."""
        account = self.account
        account.size_bytes -= REFERENCE_BYTES * count
        if account.is_full:
            account.update()
        account = self.broker_account
        account.size_bytes -= REFERENCE_BYTES * count
        if account.is_full:
            account.update()

    def take_over(self, message: "Message") -> None:
        """Count a message that is already held here, and no longer at the address that it was routed through before."""
        origin = message.origin
        further = message.references - 1
        if further >= 0 and origin is not self:
            self.charge(message)
            if origin is not None:
                origin.discharge(message)
            for _ in range(further):
                self.charge_reference()
                if origin is not None:
                    origin.discharge_reference()
        message.origin = self

    def discharge(self, message: "Message") -> None:
        """Undo `charge`; called when the last queue has removed the message."""
        account = self.account
        account.size_bytes -= message.size
        account.message_count -= 1
        if account.message_count == 0 and self.emptied is not None:
            self.emptied(self.name)
        if account.is_full:
            account.update()
        account = self.broker_account
        account.size_bytes -= message.size
        account.message_count -= 1
        if account.is_full:
            account.update()
