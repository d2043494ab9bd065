"""A service to be tested: it sends reminders for tomorrow, and again if the broker refuses one."""

from proton import Message, ProtonException, symbol
from proton.utils import BlockingConnection

DAY_MS = 24 * 3600 * 1000
ATTEMPTS = 3


def remind_tomorrow(url: str, text: str) -> None:
    """Have consumers of the queue `reminders` get a text in 24 hours. Raises ProtonException after three refusals."""
    connection = BlockingConnection(url, timeout=10)
    sender = connection.create_sender("reminders")
    message = Message(body=text, durable=True, annotations={symbol("x-opt-delivery-delay"): DAY_MS})
    for attempt in range(ATTEMPTS):
        try:
            sender.send(message)
            break
        except ProtonException:
            if attempt + 1 == ATTEMPTS:
                raise
    connection.close()
