"""What the readers of the parts of an activemq.xml share: the table's verdicts, and what was read already."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import Factory, define

from artemis_py.config.foreign_xml import ForeignElement
from artemis_py.migrate.activemq.table import TABLE
from artemis_py.migrate.findings import Findings, Origin, Outcome
from artemis_py.migrate.placeholders import replace, unresolved
from artemis_py.migrate.rules import words
from artemis_py.migrate.target import Target

# Elements that only hold others; what they hold has rules of its own.
CONTAINERS: Final = words(
    """
    beans broker destinationPolicy policyMap policyEntries defaultEntry transportConnectors destinationInterceptors
    virtualDestinationInterceptor virtualDestinations systemUsage memoryUsage storeUsage tempUsage plugins map
    authorizationMap authorizationEntries users deadLetterStrategy pendingMessageLimitStrategy pendingSubscriberPolicy
    pendingQueuePolicy pendingDurableSubscriberPolicy dispatchPolicy subscriptionRecoveryPolicy forwardTo
    slowConsumerStrategy persistenceAdapter persistenceFactory authorizationEntry authenticationUser entries
    redeliveryPolicy tempDestinationAuthorizationEntry deadLetterQueue queue topic
    """
)

_SIZE: Final = re.compile(r"\s*(\d+)\s*(k|kb|m|mb|g|gb|t|tb|b)?\s*", re.IGNORECASE)
_MULTIPLES: Final = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_NUMBER: Final = re.compile(r"\s*(-?\d+)\s*")


@define(eq=False)
class Reading:
    """One migration of an activemq.xml."""

    file: Path
    values: Mapping[str, str]
    """Values for `${name}`, also in names of files."""
    findings: Findings
    target: Target = Factory(Target)
    virtual_topics: list[str] = Factory(list)
    """Entries of `virtualTopicConsumerWildcards`."""
    has_advisories: bool = True
    purges: bool = False
    """Whether the old broker deletes destinations that are not used."""
    _told: set[tuple[int, str]] = Factory(set)

    def origin(self, element: ForeignElement, attribute: str = "") -> Origin:
        """Return the place of an element or attribute."""
        name = f"{element.name}.{attribute}" if attribute else element.name
        return Origin(self.file, element.line, name)

    def tell(
        self, element: ForeignElement, attribute: str = "", outcome: Outcome | None = None, text: str | None = None
    ) -> None:
        """Report what became of an element or attribute: what the table says, unless something else is given."""
        origin = self.origin(element, attribute)
        self._told.add((id(element), attribute))
        TABLE.tell(self.findings, origin, outcome, text)

    def cover(self, element: ForeignElement) -> None:
        """Count an element and everything in it as reported."""
        self._told.add((id(element), ""))
        self._told.update((id(element), attribute) for attribute in element.attributes)
        for child in element.children:
            self.cover(child)

    def text(self, element: ForeignElement, attribute: str, is_told: bool = True) -> str | None:
        """Return the value of an attribute and report it; None if it is missing or refers to an unknown value.

        A value may also be written as a child of Spring: `<property name="uri" value="…"/>`.
        """
        value = element.attributes.get(attribute)
        if value is None:
            return None
        missing = unresolved(value)
        if missing is not None:
            text = f"${{{missing}}} has no value; give it one with -D {missing}=VALUE"
            self.tell(element, attribute, Outcome.DROPPED, text)
            return None
        if is_told:
            self.tell(element, attribute)
        return value.strip()

    def number(self, element: ForeignElement, attribute: str) -> int | None:
        """Return a whole number and report it; None if it is missing or none."""
        value = self.text(element, attribute, is_told=False)
        match = _NUMBER.fullmatch(value or "")
        if match is None:
            if value is not None:
                self.tell(element, attribute, Outcome.DROPPED, "is not a whole number")
            return None
        self.tell(element, attribute)
        return int(match[1])

    def size(self, element: ForeignElement, attribute: str) -> int | None:
        """Return a size in bytes, such as `10 mb`, and report it; None if it is missing or none."""
        value = self.text(element, attribute, is_told=False)
        if value is None:
            return None
        size = parse_size(value)
        if size is None:
            self.tell(element, attribute, Outcome.DROPPED, "is not a size such as 64 mb")
            return None
        self.tell(element, attribute)
        return size

    def flag(self, element: ForeignElement, attribute: str) -> bool | None:
        """Return true or false and report it; None if it is missing or neither."""
        value = self.text(element, attribute, is_told=False)
        if value is None:
            return None
        if value.lower() not in ("true", "false"):
            self.tell(element, attribute, Outcome.DROPPED, "is neither true nor false")
            return None
        self.tell(element, attribute)
        return value.lower() == "true"

    def path(self, text: str) -> Path:
        """Return the file that an URL or name of Spring or Java means; relative ones are beside the old file."""
        name = replace(text, self.values)
        for prefix in ("file://", "file:", "classpath:"):
            name = name.removeprefix(prefix)
        # `//tmp` is what is left of `file:////tmp`.
        return self.file.parent / re.sub(r"^/+", "/", name)

    def sweep(self, element: ForeignElement) -> None:
        """Report everything that no reader has reported: by the table, or as unknown."""
        name = element.name
        if (id(element), "") not in self._told:
            if name not in CONTAINERS or TABLE.find(name) is not None:
                self._leave_out(element)
                if not self._is_read(element):
                    return
        for attribute in element.attributes:
            if (id(element), attribute) not in self._told:
                self._leave_out(element, attribute)
        for child in element.children:
            self.sweep(child)

    def _is_read(self, element: ForeignElement) -> bool:
        """Tell whether what is in an element has to be reported by itself."""
        rule = TABLE.find(element.name)
        return rule is not None and rule.outcome in (Outcome.KEPT, Outcome.CHANGED)

    def _leave_out(self, element: ForeignElement, attribute: str = "") -> None:
        """Report by the table what no reader has read; what the table says is carried over was not."""
        origin = self.origin(element, attribute)
        rule = TABLE.find(origin.element)
        if rule is not None and rule.outcome in (Outcome.KEPT, Outcome.CHANGED) and attribute:
            self.tell(element, attribute, Outcome.DROPPED, "has no effect at this place")
        else:
            self.tell(element, attribute)


def parse_size(text: str) -> int | None:
    """Return the bytes of a text such as `64 mb`; None if it is none."""
    match = _SIZE.fullmatch(text)
    return None if match is None else int(match[1]) * _MULTIPLES[(match[2] or "")[:1].lower()]


def match_of(pattern: str) -> str:
    """Return the match of broker.xml for a pattern of ActiveMQ."""
    return ".".join("#" if word == ">" else word for word in pattern.strip().split("."))


def is_covered(name: str, pattern: str) -> bool:
    """Tell whether a pattern of ActiveMQ covers everything that another one does."""
    parts, wider = name.split("."), pattern.split(".")
    for index, word in enumerate(wider):
        if word == ">":
            return True
        if index >= len(parts) or parts[index] == ">" or word not in ("*", parts[index]):
            return False
    return len(parts) == len(wider)
