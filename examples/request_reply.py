"""Ask a service and wait for its answer, through a reply queue that lives as long as the connection.

pip install 'artemis-py-broker[proton]'  # needs a C compiler: Qpid Proton comes as source
python request_reply.py [amqp://host:port]
"""

import sys
from threading import Thread

from proton import Message
from proton.utils import BlockingConnection

URL = "amqp://127.0.0.1:61616"


def serve(url: str, count: int) -> None:
    """Answer `count` requests: the same text in capital letters."""
    connection = BlockingConnection(url, timeout=10)
    requests = connection.create_receiver("shout")
    # A sender without an address: each answer says itself where it goes.
    answers = connection.create_sender(None)
    for _ in range(count):
        request = requests.receive(timeout=10)
        answers.send(
            Message(address=request.reply_to, correlation_id=request.correlation_id, body=str(request.body).upper())
        )
        requests.accept()
    connection.close()


def main(url: str) -> None:
    """Two requests, two answers."""
    words = ["hello", "world"]
    service = Thread(target=serve, args=(url, len(words)))
    service.start()
    connection = BlockingConnection(url, timeout=10)
    # `dynamic`: the broker makes a queue, names it, and deletes it when the connection ends.
    answers = connection.create_receiver(None, dynamic=True)
    requests = connection.create_sender("shout")
    for number, word in enumerate(words):
        requests.send(Message(reply_to=answers.link.remote_source.address, correlation_id=number, body=word))
    for _ in words:
        answer = answers.receive(timeout=10)
        answers.accept()
        print(f"{words[answer.correlation_id]} -> {answer.body}")
    connection.close()
    service.join()


if __name__ == "__main__":
    main(*sys.argv[1:] or [URL])
