"""Other brokers in MQTT's words: the Server Reference of version 5 (MQTT 5.0 §4.11)."""

from collections.abc import Sequence

from artemis_mqtt.engine import reasons
from artemis_py.core.runtime.referrals import Alternative, Referrals


def server_reference(others: Sequence[Alternative]) -> str:
    """Return the text that names other brokers, the best first: `host:port`, separated by blanks."""
    return " ".join([each.endpoint for each in others])


def redirecting_reason(referrals: Referrals) -> int:
    """Return the reason code for a client that is sent to another broker, for now or for good."""
    return reasons.SERVER_MOVED if referrals.is_leaving_for_good else reasons.USE_ANOTHER_SERVER
