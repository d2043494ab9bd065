"""Requests by message: what is sent to the management address, and what comes back (reference §6.1).

A request names a resource and an operation or attribute in its application properties, and carries the parameters
as a JSON array in its body. The answer goes to its reply-to: a JSON array of one element, the result or the reason
of the refusal.
"""

import json
from collections.abc import Callable
from typing import Final

from artemis_py.core.access import Permission
from artemis_py.core.message import Message, MessageView
from artemis_py.core.plain import plain_message
from artemis_py.core.postoffice import PostOffice
from artemis_py.core.session import Session
from artemis_py.errors import InvalidRequest, NotAuthorized, Refusal
from artemis_py.management.acceptor_control import AcceptorControl
from artemis_py.management.address_control import AddressControl
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.control import Control, parse_json, proposal
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.queue_control import QueueControl

RESOURCE: Final = "_AMQ_ResourceName"
OPERATION: Final = "_AMQ_OperationName"
ATTRIBUTE: Final = "_AMQ_Attribute"
SUCCEEDED: Final = "_AMQ_OperationSucceeded"

REPLY_PREFIXES: Final = ("queue://", "topic://", "temp-queue://", "temp-topic://")
"""What JMS clients put before a reply address; they name no part of the address (reference §6.1)."""

MAX_REQUEST_CHARS: Final = 256 * 1024
"""Longest body of a request: parameters are names and a few options, and JSON is parsed on the broker's thread."""

MAX_REPLY_ADDRESS_CHARS: Final = 4096


class ManagementEndpoint:
    """Takes every message sent to the management address; register it with `PostOffice.register_endpoint`."""

    def __init__(self, postoffice: PostOffice, facts: BrokerFacts) -> None:
        self._postoffice: Final = postoffice
        self._facts: Final = facts

    def receive(self, message: Message, session: Session) -> None:
        """Answer one request; without a reply-to the work is done and nobody hears of it.

        Raises NotAuthorized if the sender may not manage the broker, or may not send to the address it wants the
        reply at; other refusals are the reply's content. Raises ProtocolError if the message cannot be decoded.
        """
        options = self._postoffice.options
        session.check(Permission.MANAGE, options.management_address)
        request = message.view
        reply_to = self._reply_address(request, session)
        try:
            result = self._perform(request, session)
            # A result is put together by us: it is always JSON.
            succeeded, body = True, json.dumps([result], ensure_ascii=False)
        except Refusal as refusal:
            succeeded, body = False, json.dumps([str(refusal)], ensure_ascii=False)
        if reply_to is None:
            return
        reply = MessageView(
            to=reply_to,
            correlation_id=request.message_id if request.correlation_id is None else request.correlation_id,
            creation_time_ms=self._postoffice.now_ms,
            properties={SUCCEEDED: succeeded},
            body=body,
        )
        self._postoffice.route(plain_message(reply_to, reply))

    def _reply_address(self, request: MessageView, session: Session) -> str | None:
        """Where the reply goes, checked before any work is done.

        The reply is sent in the name of the client that asks for it: management must not be a way to write to
        addresses that are closed to it, nor to let requests breed requests. Temporary addresses are free, for
        their names are known only to those who were told.
        """
        name = request.reply_to
        if not name:
            return None
        for prefix in REPLY_PREFIXES:
            if name.startswith(prefix):
                name = name.removeprefix(prefix)
                break
        if name == self._postoffice.options.management_address:
            raise NotAuthorized("the reply to a management request cannot go to the management address")
        if len(name) > MAX_REPLY_ADDRESS_CHARS:
            raise InvalidRequest(f"the reply address has more than {MAX_REPLY_ADDRESS_CHARS} characters")
        address = self._postoffice.addresses.get(name)
        if address is None or not address.temporary:
            session.check(Permission.SEND, name)
        return name

    def _perform(self, request: MessageView, session: Session) -> object:
        resource = _text(request, RESOURCE)
        if resource is None:
            raise InvalidRequest(f"a management request needs the application property {RESOURCE}")
        control = self._control(resource, session)
        operation, attribute = _text(request, OPERATION), _text(request, ATTRIBUTE)
        if (operation is None) == (attribute is None):
            raise InvalidRequest(f"a management request needs {OPERATION} or {ATTRIBUTE}, and not both")
        if attribute is not None:
            return control.read(attribute)
        assert operation is not None
        return control.invoke(operation, _parameters(request.body))

    def _control(self, resource: str, session: Session) -> Control:
        kind, _, name = resource.partition(".")
        broker = BrokerControl(self._postoffice, self._facts, session)
        if resource == "broker":
            return broker
        if kind == "address" and name:
            return AddressControl(broker.find_address(name), session)
        if kind == "queue" and name:
            return QueueControl(broker.find_queue(name), session)
        if kind == "acceptor" and name:
            acceptors = {acceptor.name: acceptor for acceptor in self._facts.acceptors()}
            if name not in acceptors:
                raise InvalidRequest(f"acceptor {name!r} does not exist{proposal(name, acceptors)}")
            return AcceptorControl(acceptors[name])
        raise InvalidRequest(
            f"resource {resource[:200]!r} is unknown; it is broker, address.<name>, queue.<name> or acceptor.<name>"
        )


def _text(request: MessageView, name: str) -> str | None:
    value = request.properties.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidRequest(f"the application property {name} must be text")


def _parameters(body: object) -> list[object]:
    """The parameters of an operation: a JSON array, or nothing."""
    if body is None or body == "":
        return []
    if isinstance(body, bytes):
        try:
            body = body.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidRequest("the body of a management request must be text") from None
    if not isinstance(body, str):
        raise InvalidRequest("the body of a management request must be text with a JSON array of the parameters")
    if len(body) > MAX_REQUEST_CHARS:
        raise InvalidRequest(f"the body of a management request has more than {MAX_REQUEST_CHARS} characters")
    parameters = parse_json(body, "the body of the request")
    if not isinstance(parameters, list):
        raise InvalidRequest("the body of a management request must be a JSON array of the parameters")
    return parameters
