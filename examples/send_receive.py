"""Send one message to a queue and receive it.

pip install 'artemis-py-broker[proton]'  # needs a C compiler: Qpid Proton comes as source
artemis-py run                          # in one terminal
python send_receive.py [amqp://host:port]
"""

import sys

from proton import Message
from proton.utils import BlockingConnection

URL = "amqp://127.0.0.1:61616"


def main(url: str) -> None:
    """The queue comes into being with its first use."""
    connection = BlockingConnection(url, timeout=10)
    sender = connection.create_sender("greetings")
    sender.send(Message(body="Hello", durable=True))  # returns when the broker has accepted the message

    receiver = connection.create_receiver("greetings")
    message = receiver.receive(timeout=10)
    receiver.accept()  # now the broker forgets it
    print(message.body)
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:] or [URL])
