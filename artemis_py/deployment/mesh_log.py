"""Log of what a mesh reports, beside the log of the connections."""

from typing import Final

from artemis_py.cluster.events import (
    ChannelGap,
    DrainChanged,
    KeptElsewhere,
    LargeNotMoved,
    MemberForgotten,
    NamesNotTold,
    NotCopied,
    NotRetained,
    PeerDown,
    PeerParting,
    PeerUp,
    TablesDiffer,
    TakenAside,
)
from artemis_py.core.runtime.events import Event
from artemis_py.logs import LogBrake, named_logger

LOGGER: Final = named_logger("artemis_py.cluster")
"""Logger of the lines about the mesh."""


class MeshLog:
    """Logs the events of a mesh; peers can cause some of them at will, so their rate is limited."""

    def __init__(self) -> None:
        self._brake: Final = LogBrake(LOGGER)

    def heard(self, event: Event) -> None:
        """Log one event; those of other parts of the broker have a log of their own."""
        match event:
            case PeerUp(cluster, node_id, name, peer):
                LOGGER.info("broker joined: mesh=%s name=%s node=%s connection=%s", cluster, name, node_id, peer)
            case PeerDown(cluster, node_id, name, reason, in_doubt):
                LOGGER.warning(
                    "broker away, what is on its way to it waits: mesh=%s name=%s node=%s messages=%d reason=%s",
                    cluster,
                    name,
                    node_id,
                    in_doubt,
                    reason,
                )
            case TablesDiffer(cluster, name):
                template = "what two brokers know of each other differs: mesh=%s name=%s; all of it is told again"
                self._brake.warning(name, template, cluster, name)
            case ChannelGap(cluster, name, detail):
                LOGGER.error("stores of two brokers do not fit together: mesh=%s name=%s %s", cluster, name, detail)
            case NotCopied(cluster, address, reason):
                template = "subscriptions at other brokers miss messages: mesh=%s address=%s reason=%s"
                self._brake.warning(address, template, cluster, address, reason)
            case NotRetained(cluster, topic, reason):
                template = "retained message of another broker was not kept: mesh=%s topic=%s reason=%s"
                self._brake.warning(topic, template, cluster, topic, reason)
            case NamesNotTold(cluster, limit):
                template = "more temporary destinations than other brokers are told of: mesh=%s limit=%d"
                self._brake.warning(cluster, template, cluster, limit)
            case KeptElsewhere(cluster, queue, name, is_here):
                if is_here:
                    template = (
                        "queue needs one broker, consumers elsewhere get nothing of it: mesh=%s queue=%s broker=%s"
                    )
                else:
                    template = "consumers here get nothing of a queue at another broker: mesh=%s queue=%s broker=%s"
                self._brake.warning(queue, template, cluster, queue, name)
            case LargeNotMoved(cluster, queue, name, reason):
                template = "large message stays where it is: mesh=%s queue=%s peer=%s reason=%s"
                self._brake.warning(queue, template, cluster, queue, name, reason)
            case PeerParting(cluster, node_id, name, state):
                LOGGER.info(
                    "another broker leaves, or stays: mesh=%s name=%s node=%s state=%s", cluster, name, node_id, state
                )
            case DrainChanged(cluster, state, remaining):
                LOGGER.info("drain of this broker: mesh=%s state=%s remaining=%d", cluster, state, remaining)
            case MemberForgotten(cluster, node_id, name, in_doubt, returned):
                template = "broker forgotten: mesh=%s name=%s node=%s in_doubt=%d returned=%d"
                if in_doubt:
                    LOGGER.warning(template, cluster, name, node_id, in_doubt, returned)
                else:
                    LOGGER.info(template, cluster, name, node_id, in_doubt, returned)
            case TakenAside(cluster, queue, reason):
                self._brake.warning(
                    queue,
                    "message of another broker put aside: mesh=%s queue=%s reason=%s",
                    cluster,
                    queue,
                    reason,
                )
            case _:
                pass
