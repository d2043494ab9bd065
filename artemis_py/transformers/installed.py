"""Finds the transformers that installed packages announce, and gives Artemis' names for some of them.

Nothing in broker.xml or in a request names code: it names an entry point, which its package has announced when it was
installed.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from artemis_py.core.messages.draft import TransformerFactory
from artemis_py.core.routing.transformers import Transformers

ENTRY_POINTS: Final = "artemis_py.transformers"
"""Group of entry points in which a package announces its transformers."""

_OF_ARTEMIS: Final = "org.apache.activemq.artemis.core.server.transformer."

CLASS_NAMES: Final[Mapping[str, str]] = {
    f"{_OF_ARTEMIS}AddHeadersTransformer": "add-properties",
    f"{_OF_ARTEMIS}RemoveHeadersTransformer": "remove-properties",
}
"""Names of the shipped transformers by the class of Artemis that does the same."""


@cache
def installed_transformers() -> Transformers:
    """Return the transformers that are installed; each is imported when a divert first uses it.

    They are looked for once in a process.
    """
    found = {entry_point.name: entry_point for entry_point in entry_points(group=ENTRY_POINTS)}

    def load(name: str) -> TransformerFactory:
        factory: TransformerFactory = found[name].load()
        return factory

    return Transformers(found, load)


def transformer_name(text: str) -> str:
    """Return the name of a transformer that a configuration means by its name or by a class of Artemis."""
    return CLASS_NAMES.get(text, text)
