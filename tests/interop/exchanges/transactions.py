"""Messages that are sent to exchanges in transactions."""

from tests.interop.exchanges.site import Peer
from tests.interop.kinds.scenario import Seen
from tests.interop.kinds.site import text
from tests.interop.proton.client import Refused
from tests.interop.proton.test_transactions import Coordinator, post


def _bound(site: Peer, name: str) -> None:
    """Declare a direct exchange with a queue of its name behind the key `k`. Raises Missing."""
    site.check_transactions()
    site.declare(name, "direct")
    site.queues(f"{name}.q")
    site.bind(name, "k", f"{name}.q")


def _ended(coordinator: Coordinator, transaction: bytes, fail: bool = False) -> str:
    """Commit, or roll back; say whether it could be done."""
    try:
        coordinator.discharge(transaction, fail)
    except Refused as refused:
        return f"rejected ({refused.condition})"
    return "done"


def committed_and_rolled_back(site: Peer) -> Seen:
    """Two messages are sent and committed, two others are rolled back."""
    _bound(site, "x.plain")
    coordinator = Coordinator(site.client)
    sender = site.sender(site.exchange("x.plain", "k"))
    seen: Seen = {}
    for name, fails in (("commit", False), ("rollback", True)):
        transaction = coordinator.declare()
        for number in (1, 2):
            post(sender, transaction, text(f"{name} {number}"))
        site.client.sync()
        seen[f"before the {name}"] = site.got("x.plain.q")
        seen[name] = _ended(coordinator, transaction, fails)
        seen[f"after the {name}"] = site.got("x.plain.q")
    return seen


def rejected_within(site: Peer) -> Seen:
    """One message reaches a queue, and one that is to be rejected reaches none; then the transaction is committed."""
    _bound(site, "x.reject")
    site.set_rejects("x.reject", True)
    coordinator = Coordinator(site.client)
    sender = site.sender(site.exchange("x.reject"))
    transaction = coordinator.declare()
    for subject in ("k", "none"):
        delivery = post(sender, transaction, text(subject, subject=subject))
        site.client.wait(lambda delivery=delivery: bool(delivery.remote_state), "an outcome")  # type: ignore[misc]

    return {"commit": _ended(coordinator, transaction), "got": site.got("x.reject.q")}


def unbound_before_the_commit(site: Peer) -> Seen:
    """The binding is removed between the message and the commit."""
    _bound(site, "x.unbound")
    coordinator = Coordinator(site.client)
    sender = site.sender(site.exchange("x.unbound", "k"))
    transaction = coordinator.declare()
    post(sender, transaction, text("m"))
    site.client.sync()
    site.unbind("x.unbound", "k", "x.unbound.q")

    return {"commit": _ended(coordinator, transaction), "got": site.got("x.unbound.q")}


def queue_deleted_before_the_commit(site: Peer) -> Seen:
    """One of two queues is deleted between the message and the commit."""
    _bound(site, "x.gone")
    site.queues("x.gone.other")
    site.bind("x.gone", "k", "x.gone.other")
    coordinator = Coordinator(site.client)
    sender = site.sender(site.exchange("x.gone", "k"))
    transaction = coordinator.declare()
    post(sender, transaction, text("m"))
    site.client.sync()
    site.delete_queue("x.gone.q")

    return {"commit": _ended(coordinator, transaction), "got": site.got("x.gone.other")}
