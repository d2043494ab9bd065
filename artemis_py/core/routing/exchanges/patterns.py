"""Patterns of topic exchanges: words between dots, `*` for one word, `#` for any number (qpid-exchanges §6)."""

from typing import Final

from artemis_py.core.names.syntax import WildcardSyntax
from artemis_py.errors import InvalidRequest

MAX_WORDS: Final = 256
"""Words of a pattern, and of a routing key of a topic exchange. AMQP 0-9-1 allows 128, in 255 octets. A search takes as
many steps as there are words in both together, multiplied, in the worst case."""


class TopicSyntax(WildcardSyntax):
    """The syntax of addresses without escapes; it does not depend on `<wildcard-addresses>`.

    Empty words count, the last ones too, and an empty key is one empty word. So `*` and `#` match an empty key.
    """

    def words(self, name: str) -> list[str]:
        """Split a key at its dots."""
        return name.split(".")


TOPIC_SYNTAX: Final = TopicSyntax()


def check_words(what: str, key: str) -> None:
    """Raise InvalidRequest for a key with too many words; `what` is its name in the text."""
    count = key.count(".") + 1
    if count > MAX_WORDS:
        raise InvalidRequest(f"the {what} has {count} words; a topic exchange allows {MAX_WORDS}")
