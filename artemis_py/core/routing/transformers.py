"""The transformers that diverts may use, by name. The core knows none; the broker says which are installed."""

from collections.abc import Callable, Iterable
from typing import Final

from artemis_py.core.messages.draft import Draft, Transformer, TransformerFactory
from artemis_py.core.settings.divert_config import TransformerConfig
from artemis_py.errors import InvalidRequest


class Transformers:
    """Makes transformers."""

    def __init__(self, names: Iterable[str] = (), load: Callable[[str], TransformerFactory] | None = None) -> None:
        """Offer these names; `load` returns the factory of one of them, and may raise whatever its package raises."""
        self.names: Final = tuple(sorted(names))
        self._load: Final = load

    def make(self, config: TransformerConfig) -> Transformer:
        """Return a transformer. Raises InvalidRequest if there is none of this name, or its properties are wrong."""
        name = config.name
        if self._load is None or name not in self.names:
            known = f"there is {', '.join(self.names)}" if self.names else "there is none"
            raise InvalidRequest(f"transformer '{name}' is not installed; {known}")
        try:
            return self._load(name)(dict(config.properties))
        except ValueError as error:
            raise InvalidRequest(f"transformer '{name}': {error}") from error
        except Exception as error:  # the code of another package must not end the broker
            raise InvalidRequest(f"transformer '{name}' cannot be used: {error!r}") from error


def unusable(config: TransformerConfig, reason: str) -> Transformer:
    """Return a transformer that fails, in place of one that was there when its divert was made."""

    def fail(draft: Draft) -> None:
        raise InvalidRequest(f"transformer '{config.name}' cannot be used: {reason}")

    return fail
