"""What the crash test works with: the broker's configuration, its queues, and what a message looks like.

Everything about a message follows from its id, `producer/number`, so that whoever gets it can tell whether it is
the one that was sent.
"""

from typing import Final
from zlib import crc32

from proton import Message

WORK: Final = "work"
LATER: Final = "later"
"""Scheduled messages."""
BRIEF: Final = "brief"
"""Messages that expire."""
ONCE: Final = "once"
"""Messages sent again under the same duplicate id."""
TASKS: Final = "tasks"
RESULTS: Final = "results"
"""Transactions take from TASKS and put into RESULTS."""
FRAGILE: Final = "fragile"
"""Messages of which some never succeed."""
EXPIRED: Final = "ExpiryQueue"
DEAD: Final = "DLQ"
NEWS: Final = "news"
"""A multicast address with two queues, a durable subscription, one with a selector, and a shared one."""
NEWS_QUEUES: Final = ("news.a", "news.b")
ALL_NEWS: Final = "all"
RED_NEWS: Final = "reds"
SHARED_NEWS: Final = "shared"
SUBSCRIPTIONS: Final = (ALL_NEWS, RED_NEWS, SHARED_NEWS)

QUEUES: Final = (WORK, LATER, BRIEF, ONCE, TASKS, RESULTS, FRAGILE, EXPIRED, DEAD)
MOVES: Final = {BRIEF: EXPIRED, FRAGILE: DEAD}
"""Where messages go that no consumer of a queue takes."""

SUBSCRIBER: Final = "subscriber"
"""Container id of the client that has the subscriptions."""
RED: Final = "color = 'red'"
CHURN: Final = tuple(f"churn-{number}" for number in range(4))
"""Subscriptions that come and go."""

LONGEST_DELAY_S: Final = 0.8
LONGEST_LIFE_S: Final = 0.5
MAX_ATTEMPTS: Final = 3

# Messages on their way at once: enough for batches, few enough that a kill leaves most outcomes known.
WINDOW: Final = 20

LOGS: Final = {
    True: "<write-ahead-log-max-age>100</write-ahead-log-max-age><journal-file-size>65536</journal-file-size>",
    False: "<write-ahead-log>false</write-ahead-log>",
}
"""Elements for a broker with a log, with folds and changes of files between two kills, and for one without."""

CONFIGURATION: Final = f"""<?xml version="1.0" encoding="UTF-8"?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>crash</name>
    LOGGING
    <id-cache-size>{2 * WINDOW}</id-cache-size>
    <security-enabled>false</security-enabled>
    <message-expiry-scan-period>50</message-expiry-scan-period>
    <acceptors><acceptor name="amqp">tcp://127.0.0.1:PORT?protocols=AMQP</acceptor></acceptors>
    <addresses>
      <address name="{EXPIRED}"><anycast><queue name="{EXPIRED}"/></anycast></address>
      <address name="{DEAD}"><anycast><queue name="{DEAD}"/></anycast></address>
      <address name="{NEWS}"><multicast><queue name="news.a"/><queue name="news.b"/></multicast></address>
    </addresses>
    <address-settings>
      <address-setting match="#">
        <dead-letter-address>{DEAD}</dead-letter-address>
        <expiry-address>{EXPIRED}</expiry-address>
        <max-delivery-attempts>-1</max-delivery-attempts>
        <default-address-routing-type>ANYCAST</default-address-routing-type>
        <default-queue-routing-type>ANYCAST</default-queue-routing-type>
        <auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses>
      </address-setting>
      <address-setting match="{FRAGILE}"><max-delivery-attempts>{MAX_ATTEMPTS}</max-delivery-attempts></address-setting>
    </address-settings>
  </core>
</configuration>
"""


def configuration(port: int, log: bool) -> str:
    """The text of `broker.xml`, with a log in front of the store or without one."""
    return CONFIGURATION.replace("PORT", str(port)).replace("LOGGING", LOGS[log])


def queue_of(label: str) -> str:
    """The broker's name of a queue or of a subscription."""
    if label == SHARED_NEWS:
        return f"{label}:global"
    return f"{SUBSCRIBER}.{label}" if label in (*SUBSCRIPTIONS, *CHURN) else label


def is_red(id: str) -> bool:
    """Whether the subscription with a selector wants it."""
    return int(id.rpartition("/")[2]) % 3 == 0


def content(id: str) -> str:
    """Id and padding: mostly short, now and then of many pages of the store."""
    lot = crc32(id.encode())
    size = lot % 40_000 if lot % 50 == 0 else lot % 600
    return f"{id} {'.' * size}"


def make(id: str) -> Message:
    """The durable message of this id."""
    return Message(id=id, body=content(id), durable=True, properties={"color": "red" if is_red(id) else "blue"})


def identify(message: Message) -> str:
    """The id of a message that came; with a question mark in front if it is not the message that was sent."""
    id = str(message.id)
    properties = message.properties or {}
    if message.body == content(id) and properties.get("color") == ("red" if is_red(id) else "blue"):
        return id
    return f"?{id}"
