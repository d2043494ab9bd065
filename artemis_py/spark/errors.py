"""What a query can be told: each error says what is wrong and what would be right. No text holds a secret."""

from artemis_py.errors import ArtemisError


class SparkError(ArtemisError):
    """Root of the connector's errors."""


class MissingRequirement(SparkError):
    """Java, PySpark or pyarrow is missing or too old."""


class InvalidOption(SparkError):
    """An option is unknown, has a value it cannot have, or contradicts another."""


class ConnectionLost(SparkError):
    """No broker of the list could be reached, or the connection broke: worth another try."""


class Elsewhere(ConnectionLost):
    """Another broker of the list answered than the one that gave the numbers: the next one may be it."""


class Withheld(ConnectionLost):
    """The broker has messages that it did not deliver: worth another try, and nothing is lost."""


class Refused(SparkError):
    """The broker said no; trying again would not help."""


class Gone(Refused):
    """The queue or address is not there, or not the one that was meant."""


class DataLoss(SparkError):
    """Messages that an offset promised are not there any more."""


class Undecodable(SparkError):
    """A message that is none, or whose body is not the text that the query's schema says."""


class InvalidOffset(SparkError):
    """A checkpoint or an option holds an offset that this version cannot read."""


class SendFailed(SparkError):
    """A row could not be sent, or the broker did not accept its message."""


class SpoolFailed(SparkError):
    """The folder of a spooling stream cannot be used, or belongs to another query."""
