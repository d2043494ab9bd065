"""The roles that the shipped broker.xml has in a comment, put in place of its permissions as the comment says."""

import re


def with_roles(text: str) -> str:
    """A broker.xml with the roles monitor, operator, admin and app."""
    (found,) = re.finditer(r"<!-- Instead of <security-settings> above.*?-->", text, re.DOTALL)
    comment = found[0]
    written = comment[comment.index("<management-message-rbac>") : comment.rindex("-->")]
    before, after = text[: found.start()], text[found.end() :]
    plain = re.sub(r"<security-settings>.*</security-settings>", "", before, flags=re.DOTALL)
    assert plain != before
    return plain + written + after
