"""Publish to a topic: every subscriber gets every message, and a selector picks some of them.

pip install 'artemis-py-broker[proton]'  # needs a C compiler: Qpid Proton comes as source
python publish_subscribe.py [amqp://host:port]
"""

import sys

from proton import Link, Message, symbol
from proton.reactor import LinkOption, Selector
from proton.utils import BlockingConnection

URL = "amqp://127.0.0.1:61616"


class Topic(LinkOption):
    """Asks for a topic; without it the address would become a queue, as the shipped broker.xml says."""

    def apply(self, link: Link) -> None:
        """Called by Proton before it attaches the link."""
        terminus = link.target if link.is_sender else link.source
        terminus.capabilities.put_object(symbol("topic"))


def main(url: str) -> None:
    """One publisher, two subscribers."""
    connection = BlockingConnection(url, timeout=10)
    everything = connection.create_receiver("weather", name="everything", options=[Topic()], credit=10)
    severe = [Topic(), Selector("level > 2")]
    warnings = connection.create_receiver("weather", name="warnings", options=severe, credit=10)
    publisher = connection.create_sender("weather", options=[Topic()])
    for text, level in (("sun", 1), ("storm", 4), ("rain", 2)):
        publisher.send(Message(body=text, properties={"level": level}))
    for name, subscriber, count in (("everything", everything, 3), ("warnings", warnings, 1)):
        for _ in range(count):
            print(f"{name}: {subscriber.receive(timeout=10).body}")
            subscriber.accept()
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:] or [URL])
