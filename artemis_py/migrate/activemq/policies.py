"""Destination policies become address settings.

ActiveMQ uses the one entry that describes a destination best, and nothing of wider ones. Here settings of a narrower
match are added to those of wider ones; so what only a wider entry sets is set back in each narrower one.
"""

import re
from typing import Final

from attrs import frozen

from artemis_py.config.foreign_xml import ForeignElement
from artemis_py.migrate.activemq.reading import Reading, is_covered, match_of
from artemis_py.migrate.findings import NOWHERE, Origin, Outcome

_ALL: Final = "#"
_LETTERS: Final = "ActiveMQ.DLQ"
_COLLECTION_MS: Final = "60000"
_BUCKETS: Final = re.compile(r"bucket(?:\?.*?bucketCount=(\d+).*)?")
_DEFAULT_BUCKETS: Final = 1024
_DEFAULT_RECOVERED: Final = 100
_DEFAULT_PATIENCE_MS: Final = 30_000
_DAY_MS: Final = 86_400_000
_LONGEST_PERIOD_S: Final = 60

# What ActiveMQ does without any policy, where this broker does something else by itself.
DEFAULTS: Final = {
    "dead-letter-address": _LETTERS,
    "expiry-address": _LETTERS,
    "max-delivery-attempts": "-1",
    "default-address-routing-type": "ANYCAST",
    "default-queue-routing-type": "ANYCAST",
    "auto-delete-queues": "false",
    "auto-delete-addresses": "false",
}

# What sets back each setting that an entry may make.
_NEUTRAL: Final = DEFAULTS | {
    "max-size-bytes": "-1",
    "address-full-policy": "PAGE",
    "auto-delete-queues-delay": "0",
    "auto-delete-addresses-delay": "0",
    "default-consumers-before-dispatch": "0",
    "default-delay-before-dispatch": "-1",
    "default-exclusive-queue": "false",
    "default-group-buckets": "-1",
    "retroactive-message-count": "0",
    "slow-consumer-threshold": "-1",
    "auto-create-dead-letter-resources": "false",
    "auto-create-expiry-resources": "false",
    "dead-letter-queue-prefix": "DLQ.",
    "expiry-queue-prefix": "EXP.",
    "dead-letter-queue-suffix": "",
    "expiry-queue-suffix": "",
}

Settings = dict[str, tuple[str, Origin]]


@frozen
class _Entry:
    """A policy entry that was read."""

    pattern: str
    is_queue: bool
    settings: Settings


def read_policies(reading: Reading, broker: ForeignElement) -> None:
    """Read `destinationPolicy` of a broker, and set what ActiveMQ does without one."""
    target = reading.target
    for name, value in DEFAULTS.items():
        target.setting(_ALL, name, value, NOWHERE)
    policy = broker.find("destinationPolicy")
    entries: list[_Entry] = []
    for element in _entries(policy) if policy is not None else ():
        entries += _read_entry(reading, element)
    # Those of topics first, so that a setting of a queue of the same name replaces them.
    for entry in sorted(entries, key=lambda each: each.is_queue):
        for name, (value, origin) in entry.settings.items():
            target.setting(match_of(entry.pattern), name, value, origin)
    for entry in entries:
        _set_back(reading, entry, entries)


def _entries(policy: ForeignElement) -> list[tuple[ForeignElement, str]]:
    """Return the entries, each with the name of the element around it."""
    found = []
    for map_ in policy.children:
        for group in map_.children:
            found += [(element, group.name) for element in group.children if element.name == "policyEntry"]
    return found


def _set_back(reading: Reading, entry: _Entry, entries: list[_Entry]) -> None:
    """Set back in the match of an entry what only wider entries set."""
    if match_of(entry.pattern) == _ALL:
        return
    there = (
        {each.name for each in reading.target.settings()[match_of(entry.pattern)].children}
        if (match_of(entry.pattern) in reading.target.settings())
        else set()
    )
    for wider in entries:
        if wider is entry or wider.is_queue is not entry.is_queue or not is_covered(entry.pattern, wider.pattern):
            continue
        for name, (value, origin) in wider.settings.items():
            if name not in there and name in _NEUTRAL and value != _NEUTRAL[name]:
                reading.target.setting(match_of(entry.pattern), name, _NEUTRAL[name], origin)


def _read_entry(reading: Reading, found: tuple[ForeignElement, str]) -> list[_Entry]:
    element, group = found
    settings: Settings = {}
    pattern = ">" if group == "defaultEntry" else None
    is_queue = True
    for attribute in ("queue", "topic"):
        if attribute in element.attributes:
            pattern = reading.text(element, attribute)
            is_queue = attribute == "queue"
    if pattern is None:
        if "tempQueue" in element.attributes or "tempTopic" in element.attributes:
            text = "temporary destinations have no settings of their own"
        else:
            text = "names neither a queue nor a topic"
        reading.tell(element, "", Outcome.DROPPED, text)
        reading.cover(element)
        return []
    reading.tell(element, "", None, f'`address-setting` with the match "{match_of(pattern)}"')
    _read_limits(reading, element, settings)
    _read_life(reading, element, settings)
    _read_dispatch(reading, element, settings)
    for child in element.children:
        _read_child(reading, child, settings, is_queue)
    return [_Entry(each.strip(), is_queue, settings) for each in pattern.split(",") if each.strip()]


def _read_limits(reading: Reading, element: ForeignElement, settings: Settings) -> None:
    limit = reading.size(element, "memoryLimit")
    if limit:
        settings["max-size-bytes"] = str(limit), reading.origin(element, "memoryLimit")
    controls = reading.flag(element, "producerFlowControl")
    in_memory = any(
        cursor.name in ("vmCursor", "vmQueueCursor") for holder in element.children for cursor in holder.children
    )
    origin = reading.origin(element, "producerFlowControl")
    if controls is not False and in_memory:
        settings["address-full-policy"] = "BLOCK", origin
        if controls:
            reading.tell(element, "producerFlowControl", Outcome.KEPT, "`address-full-policy` BLOCK")
    elif controls is not None:
        settings["address-full-policy"] = "PAGE", origin


def _read_life(reading: Reading, element: ForeignElement, settings: Settings) -> None:
    period = reading.number(element, "expireMessagesPeriod")
    if period is not None:
        there = reading.target.core.find("message-expiry-scan-period")
        if there is None or 0 < period < int(there.text) or int(there.text) <= 0:
            reading.target.core.put(
                "message-expiry-scan-period", str(period), reading.origin(element, "expireMessagesPeriod")
            )
    timeout = next(
        (
            str(number)
            for name in ("inactiveTimeoutBeforeGC", "inactiveTimoutBeforeGC")
            if (number := reading.number(element, name)) is not None
        ),
        _COLLECTION_MS,
    )
    collects = reading.flag(element, "gcInactiveDestinations")
    for name in ("inactiveTimeoutBeforeGC", "inactiveTimoutBeforeGC"):
        if name in element.attributes and not (collects and reading.purges):
            reading.tell(element, name, Outcome.NEEDLESS, "nothing is deleted")
    if not collects:
        return
    origin = reading.origin(element, "gcInactiveDestinations")
    if not reading.purges:
        text = "`auto-delete-queues` stays false: without `schedulePeriodForDestinationPurge` ActiveMQ deletes nothing"
        reading.tell(element, "gcInactiveDestinations", Outcome.NEEDLESS, text)
        return
    for kind in ("queues", "addresses"):
        settings[f"auto-delete-{kind}"] = "true", origin
        settings[f"auto-delete-{kind}-delay"] = timeout, origin


def _read_dispatch(reading: Reading, element: ForeignElement, settings: Settings) -> None:
    for attribute, name in (
        ("consumersBeforeDispatchStarts", "default-consumers-before-dispatch"),
        ("timeBeforeDispatchStarts", "default-delay-before-dispatch"),
    ):
        number = reading.number(element, attribute)
        if number:
            settings[name] = str(number), reading.origin(element, attribute)
    if reading.flag(element, "allConsumersExclusiveByDefault"):
        settings["default-exclusive-queue"] = "true", reading.origin(element, "allConsumersExclusiveByDefault")
    if reading.flag(element, "prioritizedMessages") is False:
        text = "messages of a higher priority always overtake others; send all with one priority"
        reading.tell(element, "prioritizedMessages", Outcome.CHANGED, text)
    kind = reading.text(element, "messageGroupMapFactoryType")
    match = _BUCKETS.match(kind or "")
    if match is not None:
        count = match[1] or str(_DEFAULT_BUCKETS)
        settings["default-group-buckets"] = count, reading.origin(element, "messageGroupMapFactoryType")
    for attribute in ("strictOrderDispatch", "useConsumerPriority", "advisoryForConsumed", "sendAdvisoryIfNoConsumers"):
        usual = "true" if attribute == "useConsumerPriority" else "false"
        if reading.text(element, attribute, is_told=False) == usual:
            reading.tell(element, attribute, Outcome.NEEDLESS, "the default here")


def _read_child(reading: Reading, child: ForeignElement, settings: Settings, is_queue: bool) -> None:
    for part in child.children:
        origin = reading.origin(part)
        match child.name, part.name:
            case "deadLetterStrategy", "sharedDeadLetterStrategy":
                _read_shared(reading, part, settings)
            case "deadLetterStrategy", "individualDeadLetterStrategy":
                _read_individual(reading, part, settings, is_queue)
            case "deadLetterStrategy", "discarding":
                reading.tell(part)
                settings["dead-letter-address"] = settings["expiry-address"] = "", origin
            case "subscriptionRecoveryPolicy", "fixedCountSubscriptionRecoveryPolicy":
                reading.tell(part)
                count = reading.number(part, "maximumSize") or _DEFAULT_RECOVERED
                settings["retroactive-message-count"] = str(count), origin
            case "subscriptionRecoveryPolicy", "lastImageSubscriptionRecoveryPolicy":
                reading.tell(part)
                settings["retroactive-message-count"] = "1", origin
            case "slowConsumerStrategy", "abortSlowConsumerStrategy":
                _read_slow(reading, part, "maxSlowDuration", settings)
            case "slowConsumerStrategy", "abortSlowAckConsumerStrategy":
                _read_slow(reading, part, "maxTimeSinceLastAck", settings)
            case "messageGroupMapFactory", "messageGroupHashBucketFactory":
                reading.tell(part)
                count = reading.number(part, "bucketCount") or _DEFAULT_BUCKETS
                settings["default-group-buckets"] = str(count), origin
                reading.tell(child)
            case "pendingMessageLimitStrategy", "constantPendingMessageLimitStrategy":
                if reading.number(part, "limit") == -1:
                    reading.tell(part, "", Outcome.NEEDLESS, "nothing is discarded here either")


def _read_slow(reading: Reading, part: ForeignElement, attribute: str, settings: Settings) -> None:
    """Demand one message in the time after which ActiveMQ ends a consumer that settles none."""
    patience_ms = reading.number(part, attribute)
    if patience_ms is None:
        patience_ms = _DEFAULT_PATIENCE_MS
    if patience_ms <= 0:
        reading.tell(part, "", Outcome.DROPPED, "without a time no consumer is slow here")
        return
    reading.tell(part)
    origin = reading.origin(part)
    settings["slow-consumer-policy"] = "KILL", origin
    settings["slow-consumer-threshold"] = str(max(_DAY_MS // patience_ms, 1)), origin
    settings["slow-consumer-threshold-measurement-unit"] = "MESSAGES_PER_DAY", origin
    settings["slow-consumer-check-period"] = str(min(max(patience_ms // 1000, 1), _LONGEST_PERIOD_S)), origin


def _read_shared(reading: Reading, part: ForeignElement, settings: Settings) -> None:
    name = reading.text(part, "deadLetterQueue")
    nested = part.find("deadLetterQueue")
    if nested is not None:
        for queue in nested.children:
            name = reading.text(queue, "physicalName", is_told=False) or name
        reading.cover(nested)
        reading.tell(part, "deadLetterQueue")
    name = (name or _LETTERS).removeprefix("queue://")
    origin = reading.origin(part)
    reading.tell(part, "", None, f"`dead-letter-address` {name}")
    settings["dead-letter-address"] = name, origin
    settings["expiry-address"] = ("" if _leaves_expired(reading, part) else name), origin


def _read_individual(reading: Reading, part: ForeignElement, settings: Settings, is_queue: bool) -> None:
    kind = "queue" if is_queue else "topic"
    reading.tell(part)
    origin = reading.origin(part)
    prefix = reading.text(part, f"{kind}Prefix")
    if prefix is None:
        prefix = f"ActiveMQ.DLQ.{kind.capitalize()}."
    suffix = reading.text(part, f"{kind}Suffix") or ""
    other = "topic" if is_queue else "queue"
    for attribute in (f"{other}Prefix", f"{other}Suffix"):
        if attribute in part.attributes:
            reading.tell(part, attribute, Outcome.NEEDLESS, f"the entry is for a {kind}")
    for attribute in ("useQueueForQueueMessages", "useQueueForTopicMessages"):
        if reading.flag(part, attribute):
            reading.tell(part, attribute, Outcome.KEPT, "dead letters are always in queues")
    discards = _leaves_expired(reading, part)
    settings["dead-letter-address"] = _LETTERS, origin
    settings["expiry-address"] = ("" if discards else _LETTERS), origin
    for what in ("dead-letter", "expiry"):
        settings[f"auto-create-{what}-resources"] = "true", origin
        settings[f"{what}-queue-prefix"] = prefix, origin
        settings[f"{what}-queue-suffix"] = suffix, origin


def _leaves_expired(reading: Reading, part: ForeignElement) -> bool:
    """Tell whether messages that expired are discarded; also read what else the strategies have in common."""
    if reading.flag(part, "processNonPersistent"):
        reading.tell(part, "processNonPersistent", Outcome.KEPT, "always so")
    return reading.flag(part, "processExpired") is False
