"""What is reported about the configuration that the broker follows."""

from attrs import frozen

from artemis_py.core.runtime.events import Event


@frozen
class ConfigurationApplied(Event):
    """A running broker follows another configuration, as far as it can."""

    changes: int
    """Changes that were made."""
    waiting: int
    """Changes that wait for the next start."""
    problems: tuple[str, ...]
    """What was refused, and files that cannot be used."""


@frozen
class ConfigurationRejected(Event):
    """A configuration was not read, because of mistakes in it; the one before stays in force."""

    problems: tuple[str, ...]
