"""Errors of the connector: each text says what is wrong and what would be right, and contains no secret."""

from artemis_py.errors import ArtemisError


class SparkError(ArtemisError):
    """Root of the connector's errors."""


class MissingRequirement(SparkError):
    """Java, PySpark or pyarrow is missing or too old."""


class InvalidOption(SparkError):
    """An option is unknown, has an invalid value, or contradicts another one."""


class ConnectionLost(SparkError):
    """No broker of the list could be reached, or the connection broke: a retry may succeed."""


class Elsewhere(ConnectionLost):
    """A broker answered that is not the one that gave the numbers: the next one of the list may be it."""


class Withheld(ConnectionLost):
    """The broker has messages that it did not deliver: nothing is lost, and a retry may succeed."""


class Refused(SparkError):
    """The broker refused; a retry would not help."""


class Gone(Refused):
    """The queue or address does not exist, or is not the one that was meant."""


class DataLoss(SparkError):
    """Messages that an offset promised do not exist any more."""


class Undecodable(SparkError):
    """A delivery is not a valid message, or its body is not text although the query's schema says so."""


class InvalidOffset(SparkError):
    """A checkpoint or an option contains an offset that this version cannot read."""


class SendFailed(SparkError):
    """A row could not be sent, or the broker did not accept its message."""


class SpoolFailed(SparkError):
    """The folder of a spooling stream cannot be used, or belongs to another query."""
