"""Patterns of topic exchanges: words between dots, `*` for one word, `#` for any number (qpid-exchanges §6)."""

from typing import Final

from artemis_py.core.names.syntax import WildcardSyntax


class TopicSyntax(WildcardSyntax):
    """The syntax of addresses without escapes; it does not depend on `<wildcard-addresses>`.

    Empty words count, the last ones too, and an empty key is one empty word. So `*` and `#` match an empty key.
    """

    def words(self, name: str) -> list[str]:
        """Split a key at its dots."""
        return name.split(".")


TOPIC_SYNTAX: Final = TopicSyntax()
