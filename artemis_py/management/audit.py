"""One line in the log for each administrative act: who did what to what, and what became of it.

Requests that only read are not acts, and neither are those of readers and writers, which are part of the traffic.
"""

import re
from collections.abc import Mapping
from typing import Final

from artemis_py.logs import named_logger
from artemis_py.security.tokens import without_secrets

LOGGER: Final = named_logger(__name__)

MAX_TEXT: Final = 300
"""Characters of parameters and results that are logged."""

_READS: Final = re.compile(r"(?:get|is|list|count|browse|show)(?![a-z])")
_CONTENT: Final = ("sendMessage",)
"""Operations whose parameters are messages, and may be passwords: they are not for the log."""
_TRAFFIC: Final = ("reader", "writer")


def record(
    properties: Mapping[str, object], user: str, peer: str, parameters: object, succeeded: bool, result: object
) -> None:
    """Log a request of management that has been carried out or refused, unless it only reads."""
    resource, operation = properties.get("_AMQ_ResourceName"), properties.get("_AMQ_OperationName")
    if not isinstance(operation, str) or resource in _TRAFFIC or only_reads(operation):
        return
    template = "administration: user=%s peer=%s resource=%s operation=%s parameters=%s " + (
        "result=%s" if succeeded else "refused=%s"
    )
    given = "(not logged)" if operation in _CONTENT else _text(parameters or "[]")
    LOGGER.info(template, user, peer, _text(resource), _text(operation), given, _text(result))


def only_reads(operation: str) -> bool:
    """Tell from the name of an operation whether it changes nothing."""
    return _READS.match(operation) is not None


def _text(value: object) -> str:
    # A token is shown to its user once, and never in a log; he may write one where only its id is wanted.
    text = without_secrets(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
