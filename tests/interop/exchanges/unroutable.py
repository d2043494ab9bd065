"""What a sender hears of messages that reach no queue, or that a queue refuses."""

from proton import Message

from tests.interop.exchanges.site import Peer, outcome_of
from tests.interop.kinds.scenario import Seen

REJECT, DISCARD = "REJECT_UNROUTABLE", "DISCARD_UNROUTABLE"


def _wishes(site: Peer, exchange: str) -> Seen:
    """Send to a key that nothing is bound with, on links with different wishes."""
    return {
        "no wish": site.outcome(site.exchange(exchange, "none")),
        DISCARD: site.outcome(site.exchange(exchange, "none"), capabilities=[DISCARD]),
        REJECT: site.outcome(site.exchange(exchange, "none"), capabilities=[REJECT]),
    }


def by_default(site: Peer) -> Seen:
    """No queue gets the message, and the exchange has nothing said about it."""
    site.declare("u.plain", "direct")
    return _wishes(site, "u.plain")


def reject(site: Peer) -> Seen:
    """No queue gets the message, and the exchange rejects it."""
    site.declare("u.reject", "direct", rejects=True)
    return _wishes(site, "u.reject")


def policy_changed(site: Peer) -> Seen:
    """The policy of an exchange changes while a sender is attached."""
    site.declare("u.policy", "direct")
    sender = site.sender(site.exchange("u.policy", "none"))
    outcomes = [outcome_of(sender)]
    for rejects in (True, False):
        site.set_rejects("u.policy", rejects)
        outcomes.append(outcome_of(sender))

    return {"outcomes": outcomes}


def reject_without_outcomes(site: Peer) -> Seen:
    """The exchange rejects, and the sender has not said which outcomes it understands."""
    site.declare("u.deaf", "direct", rejects=True)
    sender = site.client.sender(site.exchange("u.deaf"))

    return {"outcome": outcome_of(sender)}


def answered_capabilities(site: Peer) -> Seen:
    """The answer to the attach says what happens to such messages."""
    site.declare("u.answer", "direct")
    seen: Seen = {}
    for wish in (None, DISCARD, REJECT):
        sender = site.client.sender(site.exchange("u.answer"), [wish] if wish else [])
        data = sender.link.remote_target.capabilities
        data.rewind()
        found = []
        if data.next():
            value = data.get_object()
            found = [str(one) for one in (value if isinstance(value, list) else getattr(value, "elements", [value]))]
        seen[wish or "no wish"] = sorted(one for one in found if one.endswith("_UNROUTABLE"))
        sender.close()
    return seen


def the_link_stays(site: Peer) -> Seen:
    """After a message that reached no queue the same link sends one that does."""
    site.declare("u.link", "direct")
    site.queues("u.link")
    site.bind("u.link", "k", "u.link")
    sender = site.sender(site.exchange("u.link"), [REJECT])
    outcomes = [outcome_of(sender, key, subject=key) for key in ("none", "k")]
    sender.close()

    return {"outcomes": outcomes, "got": site.got("u.link")}


def full_queue(site: Peer) -> Seen:
    """One of three queues of a fanout exchange is full and refuses messages."""
    site.declare("u.full", "fanout")
    site.queues("u.free1", "u.free2")
    site.make_queue("limited.three", limit=1)
    for queue in ("u.free1", "limited.three", "u.free2"):
        site.bind("u.full", "", queue)
    first = site.outcome(site.exchange("u.full", "k"), "first")
    second = site.outcome(site.exchange("u.full", "k"), "second")

    return {"outcomes": [first, second], **site.reached("u.free1", "limited.three", "u.free2")}


def full_queue_filled_directly(site: Peer) -> Seen:
    """One of three queues of a fanout exchange is full, because a message was sent to it."""
    site.declare("u.filled", "fanout")
    site.queues("u.filled1", "u.filled2")
    site.make_queue("limited.filled", limit=1)
    for queue in ("u.filled1", "limited.filled", "u.filled2"):
        site.bind("u.filled", "", queue)
    site.outcome(site.queue("limited.filled"), "filler")
    outcome = site.outcome(site.exchange("u.filled", "k"), "message")

    return {"outcome": outcome, **site.reached("u.filled1", "limited.filled", "u.filled2")}


def full_queue_alone(site: Peer) -> Seen:
    """The only queue of an exchange is full; the exchange has an alternate."""
    site.declare("u.fullalt", "fanout")
    site.queues("u.fullalt.q")
    site.bind("u.fullalt", "", "u.fullalt.q")
    site.declare("u.fullmain", "fanout", alternate="u.fullalt")
    site.make_queue("limited.one", limit=1)
    site.bind("u.fullmain", "", "limited.one")
    outcomes = [site.outcome(site.exchange("u.fullmain", "k"), body) for body in ("first", "second")]

    return {"outcomes": outcomes, **site.reached("limited.one", "u.fullalt.q")}


def missing_exchange(site: Peer) -> Seen:
    """A sender attaches to an exchange that does not exist, with a key."""
    return {"outcome": site.outcome(site.exchange("u.nothing", "k"))}


def settled(site: Peer) -> Seen:
    """A message that reaches no queue is sent settled; the link sends another one."""
    site.declare("u.settled", "direct")
    site.queues("u.settled")
    site.bind("u.settled", "k", "u.settled")
    sender = site.client.sender(site.exchange("u.settled"), [DISCARD], settled=True)
    for key in ("none", "k"):
        sender.start(Message(body=key, subject=key), settled=True)
    site.client.sync()
    sender.close()

    return {"got": site.got("u.settled")}
