"""Requests to the broker's management address, and their answers, for the administrative commands."""

import json
import time
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import click
from attrs import frozen

from artemis_amqp.client import Rejected, Source
from artemis_amqp.client.messages import Message, encode_message
from artemis_py.cli.client import TICK_S, Target
from artemis_py.cli.connection import Connection, Inbox, Outcomes, given_back, is_accepted, refusal
from artemis_py.cli.errors import Failed, NotConnected
from artemis_py.core.messages.view import MessageView

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
    with Connection(target, is_operator=True) as connection:
        management = Management(connection, target)
        return [management.call(request) for request in requests]


class Management:
    """Requests over one connection, each after the answer to the one before it."""

    def __init__(self, connection: Connection, target: Target) -> None:
        """Attach the links for requests and answers. Raises Failed, NotConnected."""
        self._connection: Final = connection
        self._target: Final = target
        self._numbers: Final = count(1)
        self._receiver, granted = connection.attach_receiver(Source(dynamic=True))
        self._reply_to: Final = granted.address
        self._replies: Final = Inbox()
        self._receiver.handler = self._replies
        self._sender: Final = connection.attach_sender(MANAGEMENT_ADDRESS, None)
        self._outcomes: Final = Outcomes()
        self._sender.handler = self._outcomes

    def call(self, request: Request) -> Any:
        """Run one operation and return its result; the time for the answer begins now.

        Raises Failed with the broker's reason, NotConnected without an answer in time, click's Abort after Ctrl-C.
        """
        deadline = time.monotonic() + self._target.timeout_s
        self._receiver.grant(1)
        while not self._sender.can_send:
            self._turn(deadline)
        self._sender.send(b"", self._encoded(request), None, False)
        while not self._replies:
            self._turn(deadline)
            self._check_outcome()
        delivery_id, reply = self._replies.take()
        self._connection.accept(self._receiver, delivery_id)
        return _result(reply)

    def _turn(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            text = f"no answer to a management request in {self._target.timeout_s:g} s; --timeout allows more"
            raise NotConnected(f"{self._target.url}: {text}")
        if self._connection.was_interrupted:
            raise click.Abort
        self._connection.exchange(min(left, TICK_S))
        self._connection.check(self._sender)
        self._connection.check(self._receiver)

    def _check_outcome(self) -> None:
        """Fail if the broker refused the request, because the permission to manage is missing: no reply follows."""
        while self._outcomes.arrived:
            state = self._outcomes.arrived.popleft()
            if isinstance(state, Rejected):
                raise refusal(state.error, MANAGEMENT_ADDRESS)
            if not is_accepted(state):
                raise given_back(state, "the request")

    def _encoded(self, request: Request) -> bytes:
        view = MessageView(
            message_id=next(self._numbers),
            reply_to=self._reply_to,
            properties={"_AMQ_ResourceName": request.resource, "_AMQ_OperationName": request.operation},
            body=json.dumps(request.parameters, ensure_ascii=False),
        )
        try:
            return encode_message(Message(content=view))
        except ValueError as error:
            raise Failed(f"this request cannot be sent: {error}") from None


def _result(reply: Message) -> Any:
    body: Any = reply.content.body
    try:
        result = json.loads(body)[0]
    except (TypeError, ValueError, LookupError):
        raise Failed(f"the broker's answer is not a management reply: {body!r}") from None
    if reply.content.properties.get("_AMQ_OperationSucceeded") is not True:
        raise Failed(str(result))
    return result
