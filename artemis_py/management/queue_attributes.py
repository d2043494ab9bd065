"""The attributes of a queue as management names and reads them, all derived from their declarations."""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Final

from artemis_py.core.queues.queue import Queue
from artemis_py.core.settings.queue_config import QUEUE_ATTRIBUTES
from artemis_py.core.settings.queue_settings import RESOLVED_ATTRIBUTES, QueueAttribute

ATTRIBUTES: Final[Mapping[str, QueueAttribute]] = {
    each.json: each for each in QUEUE_ATTRIBUTES if each.json is not None
}
"""Attributes by their names in the JSON of `createQueue` and `updateQueue`: artemis-model §2.2, with dashes."""


def filter_text(queue: Queue) -> str | None:
    """Return the selector of a queue as it was written, or None."""
    return None if queue.filter is None else queue.filter.text


# Values that have another form in the queue than in JSON.
_AS_JSON: Final[Mapping[str, Callable[[Queue], object]]] = {
    "address": lambda queue: queue.address.name,
    "routing_type": lambda queue: queue.routing_type.name,
    "filter": filter_text,
}


def value_of(attribute: QueueAttribute, queue: Queue) -> object:
    """Return the value that applies to a queue, in the form that JSON uses."""
    name = attribute.attribute
    if name in RESOLVED_ATTRIBUTES:
        value = getattr(queue.settings, name)
        return value.name if isinstance(value, Enum) else value
    as_json = _AS_JSON.get(name)
    return getattr(queue, name) if as_json is None else as_json(queue)


SHOWN: Final[Mapping[str, Callable[[Queue], object]]] = {
    each.shown: partial(value_of, each) for each in ATTRIBUTES.values()
}
"""Readers of the attributes of the resource `queue.<name>`, by name: `MaxConsumers`."""

COLUMNS: Final[Mapping[str, Callable[[Queue], object]]] = {
    f"{name[0].lower()}{name[1:]}": read for name, read in SHOWN.items()
}
"""Readers of the columns in a list of queues, by name: `maxConsumers`."""
