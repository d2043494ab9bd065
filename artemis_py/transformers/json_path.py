"""The transformer that copies values of a JSON body into properties.

A path is `$`, then any number of steps: `.name` (letters, digits, `_` and `-`), `['any name']`, or `[3]`, which counts
from 0. It leads to one value or to none. There are no wildcards, slices, filters, negative indexes, functions and no
`..`: a body must not decide how long the search takes.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from artemis_py.core.messages.draft import MAX_PROPERTY_CHARS, Draft, Transformer, Unchanged, is_simple
from artemis_py.errors import ProtocolError

MAX_BODY_BYTES: Final = 1024 * 1024
"""Largest body that is parsed. The broker does nothing else in that time, which is about 10 ms."""

_STEP: Final = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d{1,9})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]", re.ASCII)

Path = tuple[str | int, ...]


def parse_path(text: str) -> Path:
    """Return the steps of a path: names and indexes. Raises ValueError with the place of the mistake."""
    if not text.startswith("$"):
        raise ValueError(f'the path "{text}" must begin with $')
    steps: list[str | int] = []
    offset = 1
    while offset < len(text):
        found = _STEP.match(text, offset)
        if found is None:
            rest = text[offset : offset + 20]
            raise ValueError(f'the path "{text}" is not understood from "{rest}"; steps are .name, [\'name\'] and [0]')
        name, index, *quoted = found.groups()
        steps.append(int(index) if index is not None else name or quoted[0] or quoted[1] or "")
        offset = found.end()
    return tuple(steps)


def json_to_properties(properties: Mapping[str, str]) -> Transformer:
    """Make a transformer that sets each key to the value that its path finds in the body.

    Texts, numbers and truth values are copied with their type. A property is left as it is if its path leads nowhere.
    Raised as `Unchanged`: a body that is not JSON or too large, a path that leads to an object, an array, or a value
    that no property can have.
    """
    if not properties:
        raise ValueError('needs a property whose key is a name and whose value is a path, such as "$.order.id"')
    paths = {name: parse_path(text.strip()) for name, text in properties.items()}
    for name in paths:
        if not 0 < len(name) <= MAX_PROPERTY_CHARS:
            raise ValueError(f"the name of a property has 1 to {MAX_PROPERTY_CHARS} characters")

    def transform(draft: Draft) -> None:
        body = _body(draft)
        for name, path in paths.items():
            value = _find(body, path)
            if value is None:
                continue
            if not is_simple(value) or isinstance(value, bytes):
                raise Unchanged(f"the path of '{name}' leads to a value that a property cannot have")
            draft.properties[name] = value

    return transform


def _body(draft: Draft) -> object:
    """Return the body as JSON has it. Raises Unchanged."""
    if draft.size > MAX_BODY_BYTES:
        raise Unchanged(f"the body is larger than {MAX_BODY_BYTES} bytes")
    try:
        body = draft.body
    except ProtocolError as error:
        raise Unchanged("the message cannot be decoded") from error
    if isinstance(body, dict | list):  # AMQP has such values itself
        return body
    if not isinstance(body, str | bytes):
        raise Unchanged("the body is neither text nor octets")
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Unchanged("the body is not JSON") from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _find(value: object, path: Path) -> object:
    """Return the value at the end of a path, None if there is none."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value
