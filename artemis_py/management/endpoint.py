"""Management by message: requests to the management address, and their replies (artemis-model §6.1).

A request names a resource and an operation or attribute in its application properties, and carries the parameters
as a JSON array in its body. The reply goes to its reply-to: a JSON array of one element, the result or the reason
of the refusal.
"""

import json
from collections.abc import Callable, Generator
from typing import Final

from artemis_py.core.addresses.address import Address
from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.message import Message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.names.syntax import parse_fqqn
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.core.sessions.producer import Producer
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest, ProtocolError, Refusal
from artemis_py.logs import LogBrake, named_logger
from artemis_py.management.audit import record
from artemis_py.management.control import parse_json
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.reader_control import READER
from artemis_py.management.resources import Resources
from artemis_py.management.writer_control import WRITER

BRAKE: Final = LogBrake(named_logger(__name__))

RESOURCE: Final = "_AMQ_ResourceName"
OPERATION: Final = "_AMQ_OperationName"
ATTRIBUTE: Final = "_AMQ_Attribute"
SUCCEEDED: Final = "_AMQ_OperationSucceeded"

REPLY_PREFIXES: Final = ("queue://", "topic://", "temp-queue://", "temp-topic://")
"""Prefixes that JMS clients put before a reply address; they are not part of the address (artemis-model §6.1)."""

FOR_EVERYBODY: Final = (READER, WRITER)
"""Resources that need no permission to manage: their operations check permissions on each queue themselves."""

REPLY_ROOM_BYTES: Final = 4 << 20
"""Replies that may wait at one temporary address whatever limits are reached. An operator makes room with requests, so
they are answered when nothing else is accepted; the size keeps a client that reads no replies from using it up."""

MAX_REQUEST_CHARS: Final = 256 * 1024
"""Longest body of a request. Parameters are names and a few options, and JSON is parsed on the broker's thread."""


class ManagementEndpoint:
    """Handles every message sent to the management address; register it with `Sessions.register_endpoint`."""

    def __init__(self, services: Services, facts: BrokerFacts, hosts: VirtualHosts | None = None) -> None:
        """Create it for one domain; `hosts` only for the default one, where the others are administered."""
        self._endpoints: Final = services.sessions.endpoints
        self._domain: Final = services.sessions.domain
        self._resources: Final = Resources(services, facts, hosts)

    def receive(self, message: Message, session: Session) -> None:
        """Perform one request and reply when all of it is done; without a reply-to, no reply is sent.

        Raises NotAuthorized if the sender may not manage the broker, or another Refusal if the reply cannot go to its
        address; a protocol refuses the message then. The reply reports all other failures.
        """
        try:
            request = message.view
        except ProtocolError as error:
            raise InvalidRequest(f"the management request cannot be decoded: {error}") from None
        if request.properties.get(RESOURCE) not in FOR_EVERYBODY:
            session.check(Permission.MANAGE, self._domain.options.management_address)
        send = self._reply_path(request, session)

        def answer(succeeded: bool, result: object) -> None:
            record(request.properties, session.subject.name, session.peer, request.body, succeeded, result)
            if send is not None:
                self._answer(request, send, succeeded, result)

        try:
            result = self._perform(request, session)
        except Refusal as refusal:
            answer(False, str(refusal))
            return
        if isinstance(result, Generator):
            self._domain.dispatcher.slices.start(
                result, lambda value: answer(True, value), lambda refusal: answer(False, str(refusal))
            )
        else:
            answer(True, result)

    def _answer(
        self, request: MessageView, send: Callable[[MessageView], None], succeeded: bool, result: object
    ) -> None:
        reply = MessageView(
            correlation_id=request.message_id if request.correlation_id is None else request.correlation_id,
            creation_time_ms=self._domain.dispatcher.now_ms,
            properties={SUCCEEDED: succeeded},
            # A result is built by our own operations, so JSON can always express it.
            body=json.dumps([result], ensure_ascii=False),
        )
        # The reply is sent when the change is on disk: a queue whose creation was confirmed exists after a crash.
        self._domain.storage.when_durable(lambda: send(reply), lambda reason: _send_failure(send, reply, reason))

    def _reply_path(self, request: MessageView, session: Session) -> Callable[[MessageView], None] | None:
        """Return how to send the reply, found before any work is done; None if there is no reply-to.

        The reply is sent with the permissions of the client that asks for it: management must not let it write to
        addresses that it has no access to, nor let a request cause further requests. Temporary addresses need no
        permission, because only clients that were told their names know them.
        """
        name = request.reply_to
        if not name:
            return None
        for prefix in REPLY_PREFIXES:
            if name.startswith(prefix):
                name = name.removeprefix(prefix)
                break
        address = self._domain.addresses.get(name)
        if address is not None and address.temporary:
            temporary = address
            return lambda view: _send_to(self._domain, temporary, view)
        if parse_fqqn(name)[0] in self._endpoints:
            raise InvalidRequest("the reply to a management request cannot be a request")
        producer = session.producer(name)
        return lambda view: _send_by(producer, view)

    def _perform(self, request: MessageView, session: Session) -> object:
        resource = _text(request, RESOURCE)
        if resource is None:
            raise InvalidRequest(f"a management request needs the application property {RESOURCE}")
        control = self._resources.find(resource, session)
        operation, attribute = _text(request, OPERATION), _text(request, ATTRIBUTE)
        if (operation is None) == (attribute is None):
            raise InvalidRequest(f"a management request needs {OPERATION} or {ATTRIBUTE}, and not both")
        if attribute is not None:
            return control.read(attribute)
        assert operation is not None
        return control.invoke(operation, _parameters(request.body))


def _send_failure(send: Callable[[MessageView], None], reply: MessageView, reason: str) -> None:
    """Reply that the store failed before the change was durable, so a restart may undo the change."""
    reply.properties[SUCCEEDED] = False
    text = f"done, but the store failed: {reason}; after a restart it may be undone"
    reply.body = json.dumps([text], ensure_ascii=False)
    send(reply)


def _send_to(domain: Domain, address: Address, view: MessageView) -> None:
    view.to = address.name
    if address.is_deleted:
        # The client that asked has left in the meantime.
        return
    send = domain.answer if address.account.size_bytes <= REPLY_ROOM_BYTES else domain.route
    _deliver(address.name, lambda: send(plain_message(address.name, view), address))


def _send_by(producer: Producer, view: MessageView) -> None:
    view.to = producer.name
    _deliver(producer.name, lambda: producer.send(plain_message(producer.name, view)))


def _deliver(name: str, send: Callable[[], int]) -> None:
    """Send a reply, and log a refusal: the request was accepted long ago, so no client is left to be told."""
    try:
        send()
    except Refusal as refusal:
        BRAKE.warning(name, "management reply not sent: address=%s reason=%s", name, refusal)


def _text(request: MessageView, name: str) -> str | None:
    value = request.properties.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InvalidRequest(f"the application property {name} must be text")


def _parameters(body: object) -> list[object]:
    """Return the parameters of an operation: a JSON array, or nothing."""
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
