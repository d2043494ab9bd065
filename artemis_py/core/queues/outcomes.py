"""Outcomes of deliveries. Plain ints, because they are compared per message in compiled code."""

from typing import Final

ACCEPTED: Final = 0
"""Done: the message leaves the queue."""
RELEASED: Final = 1
"""Not processed: the message goes back to its place, and the attempt does not count."""
FAILED: Final = 2
"""The attempt failed: it counts, and the message may go to the dead-letter address."""
REJECTED: Final = 3
"""No consumer can process it: the message goes to the dead-letter address at once."""
CLIENT_CAUSE: Final = "dlqDeliveryFailureCause"
"""Property with what a consumer said of a message that it rejected, as in OpenWire."""
BY_CONSUMER: Final = "rejected by its consumer"
"""Cause of a dead letter."""
BY_ADMINISTRATOR: Final = "sent by an administrator"
"""Cause of another one; any other cause is that too many attempts failed."""
EXPIRED: Final = 4
"""Its consumer found that its time was over: the message goes to the expiry address."""
