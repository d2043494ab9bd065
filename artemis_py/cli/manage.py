"""Requests to the broker's management address, and their answers, for the administrative commands."""

import json
import time
from collections.abc import Sequence
from typing import Any, Final

import click
from attrs import frozen
from proton import Event, Message

from artemis_py.cli.client import TIMEOUT_S, Conversation, Target, delivery_condition, refusal
from artemis_py.cli.errors import Failed, NotConnected

MANAGEMENT_ADDRESS: Final = "activemq.management"


@frozen
class Request:
    """One operation on one resource."""

    resource: str
    operation: str
    parameters: tuple[object, ...] = ()


def call(target: Target, resource: str, operation: str, *parameters: object) -> Any:
    """Run one operation and return its result. Raises Failed with the broker's reason, or NotConnected."""
    return call_all(target, [Request(resource, operation, parameters)])[0]


def call_all(target: Target, requests: Sequence[Request]) -> list[Any]:
    """Run operations one after the other on one connection and return their results; the first refusal ends this."""
    administering = Administering(target, requests)
    administering.run()
    if administering.was_interrupted and len(administering.results) < len(requests):
        raise click.Abort
    return administering.results


class Administering(Conversation):
    """Sends the requests, each after the answer to the one before it."""

    def __init__(self, target: Target, requests: Sequence[Request]) -> None:
        # Proton tops up credit before it counts the current message: with a prefetch of 1 the second never arrives.
        super().__init__(target, prefetch=10, auto_accept=True)
        self.requests: Final = requests
        self.results: list[Any] = []
        self._receiver: Any = None
        self._sender: Any = None
        self._sent = 0
        self._asked_at = 0.0

    def begin(self, event: Event) -> None:
        """Ask for a temporary queue for the answers."""
        self._asked_at = time.monotonic()
        self._receiver = event.container.create_receiver(self.connection, None, dynamic=True)

    def on_link_opened(self, event: Event) -> None:
        """Attach the sender once the queue for the answers exists."""
        if event.link == self._receiver and self._sender is None:
            self._sender = event.container.create_sender(self.connection, MANAGEMENT_ADDRESS)

    def on_sendable(self, event: Event) -> None:
        """Send the next request: there is credit."""
        self._ask()

    def _ask(self) -> None:
        if self._sent > len(self.results) or self._sender.credit <= 0 or self.is_finished:
            return
        request = self.requests[self._sent]
        message: Any = Message(
            body=json.dumps(request.parameters, ensure_ascii=False),
            properties={"_AMQ_ResourceName": request.resource, "_AMQ_OperationName": request.operation},
        )
        message.id = self._sent + 1
        message.reply_to = self._receiver.remote_source.address
        self._sender.send(message)
        self._asked_at = time.monotonic()
        self._sent += 1

    def on_rejected(self, event: Event) -> None:
        """Fail: the broker refused the request, because the permission to manage is missing."""
        self.fail(refusal(delivery_condition(event), MANAGEMENT_ADDRESS))

    def on_message(self, event: Event) -> None:
        """Process an answer."""
        reply: Any = event.message
        try:
            result = json.loads(reply.body)[0]
        except (TypeError, ValueError, LookupError):
            self.fail(Failed(f"the broker's answer is not a management reply: {reply.body!r}"))
            return
        if not reply.properties or reply.properties.get("_AMQ_OperationSucceeded") is not True:
            self.fail(Failed(str(result)))
            return
        self.results.append(result)
        if len(self.results) == len(self.requests):
            self.finish()
        else:
            self._ask()

    def tick(self) -> None:
        """Fail if the broker has not answered in time."""
        if time.monotonic() - self._asked_at > TIMEOUT_S:
            self.fail(NotConnected(f"{self.target.url}: no answer to a management request in {TIMEOUT_S:.0f} s"))
