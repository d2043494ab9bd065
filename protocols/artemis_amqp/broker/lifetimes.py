"""Dynamic nodes, which the broker creates for clients, and when they are deleted (AMQP 1.0 §3.5.10 to §3.5.13).

    delete-on-close                 the link that created it, or its connection, is gone; the default if a client does
                                    not ask for a policy
    delete-on-no-links              no link of any connection has it as source or target
    delete-on-no-messages           the last message left it, settled and not in a transaction; a node that never had
                                    a message is deleted with the link that created it
    delete-on-no-links-or-messages  neither links nor messages remain

A link is gone when it is closed or ended by an error. A link that is only detached exists until its terminus expires:
`expiry-policy` says which ending starts the `timeout` (AMQP 1.0 §3.5.6). Only the connection that created a node may
consume from it; after that connection has ended, any client with the right to do so may.
"""

from enum import IntEnum
from typing import Final

from artemis_amqp.broker.termini import LinkKey, Termini
from artemis_amqp.engine import errors
from artemis_amqp.engine.performatives import Source, Target
from artemis_amqp.engine.session import AmqpSession
from artemis_amqp.engine.types import Array, Described, Symbol, ULong
from artemis_py.core.runtime.timers import Timer
from artemis_py.core.sessions.session import Session
from artemis_py.core.sessions.temporary import TemporaryNode
from artemis_py.errors import LimitExceeded
from artemis_py.protocol import Host

# Nodes that outlive the connection that created them, in all: each is an address and a queue, some 10 KiB.
NODES_LIMIT: Final = 10_000

LIFETIME_POLICY: Final = Symbol("lifetime-policy")
SUPPORTED_MODES: Final = Symbol("supported-dist-modes")


class Policy(IntEnum):
    """Lifetime policy of a node; the values are the descriptors."""

    ON_CLOSE = 0x2B
    NO_LINKS = 0x2C
    NO_MESSAGES = 0x2D
    NO_LINKS_OR_MESSAGES = 0x2E


_DESCRIPTORS: Final[dict[object, Policy]] = {
    "amqp:delete-on-close:list": Policy.ON_CLOSE,
    "amqp:delete-on-no-links:list": Policy.NO_LINKS,
    "amqp:delete-on-no-messages:list": Policy.NO_MESSAGES,
    "amqp:delete-on-no-links-or-messages:list": Policy.NO_LINKS_OR_MESSAGES,
}


class Ending(IntEnum):
    """Events that end a link's attachment, smallest first."""

    DETACH = 0
    SESSION = 1
    CONNECTION = 2


_NEVER: Final = 3
_EXPIRY: Final[dict[str, int]] = {
    "link-detach": Ending.DETACH,
    "session-end": Ending.SESSION,
    "connection-close": Ending.CONNECTION,
    "never": _NEVER,
}


def check_terminus(terminus: Source | Target) -> None:
    """Raise errors.Condition if no terminus may be like this (AMQP 1.0 §3.5.3)."""
    if terminus.expiry_policy not in _EXPIRY:
        raise errors.Condition(errors.INVALID_FIELD, f"there is no expiry-policy '{terminus.expiry_policy[:80]}'")
    if terminus.dynamic and terminus.address:
        raise errors.Condition(errors.INVALID_FIELD, "a dynamic node gets its address from the broker")
    if terminus.dynamic_node_properties and not terminus.dynamic:
        raise errors.Condition(errors.INVALID_FIELD, "dynamic-node-properties without dynamic=true")


def read_policy(properties: dict[Symbol, object] | None) -> Policy:
    """Return the lifetime policy that a client asks for. Raises errors.Condition."""
    wanted = (properties or {}).get(LIFETIME_POLICY)
    if wanted is None:
        return Policy.ON_CLOSE
    if isinstance(wanted, Described) and wanted.value == []:
        descriptor = wanted.descriptor
        if isinstance(descriptor, ULong) and int(descriptor) in list(Policy):
            return Policy(int(descriptor))
        if isinstance(descriptor, Symbol) and str(descriptor) in _DESCRIPTORS:
            return _DESCRIPTORS[str(descriptor)]
    raise errors.Condition(errors.INVALID_FIELD, "lifetime-policy is one of the four lists of AMQP 1.0 §3.5.10 to 13")


def node_properties(asked: dict[Symbol, object] | None, policy: Policy, is_topic: bool) -> dict[Symbol, object]:
    """Return the actual properties of a new node for the answer. Raises errors.Condition."""
    answer: dict[Symbol, object] = {LIFETIME_POLICY: Described(ULong(policy), [])}
    modes = (asked or {}).get(SUPPORTED_MODES)
    if modes is not None:
        wanted = modes.items if isinstance(modes, Array) else (modes,)
        if any(mode not in ("move", "copy") for mode in wanted):
            raise errors.Condition(errors.INVALID_FIELD, "supported-dist-modes are move and copy")
        answer[SUPPORTED_MODES] = Symbol("copy") if is_topic else modes
    return answer


class _Node:
    """One dynamic node."""

    def __init__(self, node: TemporaryNode, policy: Policy, maker: LinkKey, session: Session) -> None:
        self.core_node: Final = node
        self.name: Final = node.name
        self.policy: Final = policy
        self.maker: Final = maker
        self.session: Final = session
        self.links: set[LinkKey] = {maker}
        self.had_messages = False


class Lifetimes:
    """The dynamic nodes of a broker, and the links that refer to them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._nodes: dict[str, _Node] = {}
        self._made_by: dict[Session, set[str]] = {}
        """Names of nodes, by the session of the connection that created them, while it lasts."""
        self._node_of: dict[LinkKey, str] = {}
        """Links that refer to such a node, attached or not."""
        self._expiring: dict[LinkKey, Timer] = {}
        self._due: set[str] = set()
        """Names of nodes that may have lost their last link or message."""
        self._lasting = 0
        """Number of nodes that are not deleted with their connection."""

    def create(self, node: TemporaryNode, policy: Policy, maker: LinkKey, session: Session) -> None:
        """Add a node that was created for a link as a temporary one of its session. Raises LimitExceeded."""
        if policy is not Policy.ON_CLOSE:
            if self._lasting >= NODES_LIMIT:
                raise LimitExceeded(f"{NODES_LIMIT} dynamic nodes wait for the end of their links or messages")
            self._lasting += 1
            node.outlive_session()
        self._refer(maker, node.name)
        self._nodes[node.name] = _Node(node, policy, maker, session)
        self._made_by.setdefault(session, set()).add(node.name)
        if policy in (Policy.NO_MESSAGES, Policy.NO_LINKS_OR_MESSAGES):
            node.when_emptied(self._emptied)

    def attached(self, key: LinkKey, address: str) -> None:
        """Record that a link refers to this address."""
        node = self._nodes.get(address)
        if node is not None:
            self._refer(key, address)
            node.links.add(key)
        elif key in self._node_of:
            self.gone(key)

    def refers(self, key: LinkKey) -> bool:
        """Tell whether a link refers to a dynamic node."""
        return key in self._node_of

    def detached(self, key: LinkKey, terminus: Source | Target | None, ending: Ending) -> bool:
        """Apply the expiry policy to a link that `ending` detached; True if a larger ending must still be reported."""
        since = Ending.SESSION if terminus is None else _EXPIRY[terminus.expiry_policy]
        if ending < since:
            return ending is not Ending.CONNECTION
        if terminus is not None and terminus.timeout > 0:
            self._expiring[key] = self._host.after(1000 * terminus.timeout, lambda: self._expired(key))
        else:
            self.gone(key)
        return False

    def gone(self, key: LinkKey) -> None:
        """Forget a link that is gone; `run` decides what that means for its node."""
        self._cancel(key)
        name = self._node_of.pop(key, None)
        node = self._nodes.get(name) if name is not None else None
        if node is not None:
            node.links.discard(key)
            self._plan(node.name)

    def connection_closed(self, session: Session) -> None:
        """Forget the ON_CLOSE nodes of a connection that has ended, and open its other nodes to all clients."""
        for name in self._made_by.pop(session, ()):
            node = self._nodes[name]
            if node.policy is Policy.ON_CLOSE:
                self._forget(node)
            else:
                node.core_node.open_to_all()
        self.run()

    def run(self) -> None:
        """Delete the nodes whose lifetime has ended."""
        while self._due:
            node = self._nodes.get(self._due.pop())
            if node is not None and self._is_over(node):
                self._forget(node)
                node.core_node.delete("its lifetime policy")

    # -- decisions ---------------------------------------------------------------------------------------------

    def _is_over(self, node: _Node) -> bool:
        if node.policy is Policy.ON_CLOSE:
            return node.maker not in node.links
        if node.policy is Policy.NO_LINKS:
            return not node.links
        if not node.core_node.is_empty:
            return False
        if node.policy is Policy.NO_MESSAGES:
            return node.had_messages or node.maker not in node.links
        return not node.links

    def _forget(self, node: _Node) -> None:
        del self._nodes[node.name]
        made = self._made_by.get(node.session)
        if made is not None:
            made.discard(node.name)
            if not made:
                del self._made_by[node.session]
        if node.policy is not Policy.ON_CLOSE:
            self._lasting -= 1
        for key in node.links:
            self._cancel(key)
            self._node_of.pop(key, None)

    def _refer(self, key: LinkKey, name: str) -> None:
        self._cancel(key)
        before = self._node_of.get(key)
        if before is not None and before != name:
            self.gone(key)
        self._node_of[key] = name

    def _cancel(self, key: LinkKey) -> None:
        timer = self._expiring.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _expired(self, key: LinkKey) -> None:
        self.gone(key)
        self.run()

    def _emptied(self, name: str) -> None:
        """Plan a check of the node whose last message left; deleting it now would disturb the code that removed it."""
        node = self._nodes.get(name)
        if node is not None:
            node.had_messages = True
            self._plan(name)

    def _plan(self, name: str) -> None:
        if not self._due:
            self._host.after(0, self.run)
        self._due.add(name)


class Departures:
    """Detached links of one connection that refer to dynamic nodes; they count until their termini expire."""

    def __init__(self, lifetimes: Lifetimes, termini: Termini) -> None:
        self._lifetimes = lifetimes
        self._termini = termini
        self._links: dict[LinkKey, tuple[AmqpSession, Source | Target | None]] = {}

    def left(self, key: LinkKey, session: AmqpSession, terminus: Source | Target | None, is_over: bool) -> None:
        """Record that a link is gone (`is_over`) or only detached; does nothing if it refers to an ordinary node."""
        if is_over:
            self._lifetimes.gone(key)
        elif self._lifetimes.refers(key) and self._lifetimes.detached(key, terminus, Ending.DETACH):
            self._links[key] = (session, terminus)

    def ended(self, ending: Ending, session: AmqpSession | None = None) -> None:
        """Apply the end of a session, or of all sessions with the connection, to its detached links."""
        for key, (former, terminus) in list(self._links.items()):
            if session is None or former is session:
                is_there = self._lifetimes.refers(key) and not self._termini.is_attached(key)
                if not is_there or not self._lifetimes.detached(key, terminus, ending):
                    del self._links[key]
