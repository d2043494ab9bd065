"""The configuration that a migration makes: the tree of a broker.xml, users, roles and files beside it.

Each element remembers which place of the old configuration asked for it (`origin`), so that a value that this broker
refuses can be reported there.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from attrs import Factory, define, field

from artemis_py.migrate.findings import NOWHERE, Origin

_URL_SAFE: Final = ".*,:/@-_"


@define(eq=False)
class Element:
    """An element of the new broker.xml."""

    name: str
    origin: Origin = NOWHERE
    attributes: dict[str, str] = Factory(dict)
    text: str = ""
    children: list["Element"] = Factory(list)
    _index: dict[tuple[str, str], list["Element"]] = field(factory=dict, init=False)
    """Children by their name and the value of each attribute: there may be thousands."""
    _indexed: list["Element"] = field(factory=list, init=False)
    """Children that are in the index."""

    def child(self, name: str, /, **attributes: str) -> "Element":
        """Return the child of this name and with these attributes; create it if there is none."""
        self._look_again()
        for each in self._index.get((name, next(iter(attributes.values()), "")), ()):
            if attributes.items() <= each.attributes.items():
                return each
        return self.add(name, NOWHERE, **attributes)

    def _look_again(self) -> None:
        """Index the children that are new; all of them if others have gone."""
        known = len(self._indexed)
        if known > len(self.children) or (known and self.children[known - 1] is not self._indexed[-1]):
            self._index, self._indexed, known = {}, [], 0
        for each in self.children[known:]:
            self._indexed.append(each)
            for value in dict.fromkeys((*each.attributes.values(), "")):
                self._index.setdefault((each.name, value), []).append(each)

    def add(self, name: str, origin: Origin, text: str = "", /, **attributes: str) -> "Element":
        """Append a child."""
        made = Element(name, origin, {key.replace("_", "-"): value for key, value in attributes.items()}, text)
        self.children.append(made)
        return made

    def put(self, name: str, text: str, origin: Origin) -> "Element":
        """Set the text of the child of this name, which is created if there is none."""
        made = self.child(name)
        made.text, made.origin = text, origin
        return made

    def find(self, name: str) -> "Element | None":
        """Return the first child of this name."""
        return next((each for each in self.children if each.name == name), None)

    def walk(self) -> Iterator["Element"]:
        """Yield the element and everything below it."""
        yield self
        for each in self.children:
            yield from each.walk()


@define(eq=False)
class Acceptor:
    """Port on which the new broker listens."""

    name: str
    host: str
    port: int
    origin: Origin
    parameters: dict[str, str] = Factory(dict)

    def url(self) -> str:
        """Return its URL as broker.xml has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        given = ";".join(f"{name}={quote(value, safe=_URL_SAFE)}" for name, value in self.parameters.items())
        return f"tcp://{host}:{self.port}" + (f"?{given}" if given else "")


@define(eq=False)
class Target:
    """Everything that is written."""

    core: Element = Factory(lambda: Element("core"))
    login: Element = Factory(lambda: Element("login"))
    exchanges: Element = Factory(lambda: Element("exchanges"))
    acceptors: list[Acceptor] = Factory(list)
    users: dict[str, str] = Factory(dict)
    """Passwords by user, as the users file has them; hashes only."""
    roles: dict[str, list[str]] = Factory(dict)
    """Users by role."""
    files: dict[str, bytes] = Factory(dict)
    """Contents of further files in the folder of broker.xml, private ones among them."""

    def setting(self, match: str, name: str, text: str, origin: Origin) -> None:
        """Set an address setting of a match."""
        self.core.child("address-settings").child("address-setting", match=match).put(name, text, origin)

    def settings(self) -> dict[str, Element]:
        """Return the address settings by match."""
        return {each.attributes["match"]: each for each in self.core.child("address-settings").children}

    def address(self, name: str, routing_type: str, origin: Origin, queue: str | None = None) -> None:
        """Declare an address with a routing type, `anycast` or `multicast`, and a queue if one is named."""
        address = self.core.child("addresses").child("address", name=name)
        address.origin = origin
        kind = address.child(routing_type)
        if queue is not None:
            kind.child("queue", name=queue).origin = origin

    def has_queue(self, address: str) -> bool:
        """Tell whether an address is declared with a queue."""
        declared = self.core.child("addresses").children
        found = [each for each in declared if each.attributes.get("name") == address]
        return any(part.name == "queue" for each in found for part in each.walk())

    def has_divert(self, address: str) -> bool:
        """Tell whether a divert takes what is sent to an address."""
        group = self.core.find("diverts")
        taken = [each.find("address") for each in group.children] if group is not None else []
        return any(each is not None and each.text == address for each in taken)

    def permit(self, match: str, grants: Mapping[str, set[str]], origin: Origin) -> None:
        """Add permissions of a match: roles by type of permission."""
        setting = self.core.child("security-settings").child("security-setting", match=match)
        setting.origin = origin
        for kind, roles in grants.items():
            permission = setting.child("permission", type=kind)
            permission.origin = origin
            there = set(filter(None, permission.attributes.get("roles", "").split(",")))
            permission.attributes["roles"] = ",".join(sorted(there | roles))

    def give_role(self, role: str, user: str) -> None:
        """Put a user into a role."""
        members = self.roles.setdefault(role, [])
        if user not in members:
            members.append(user)

    def declare_letter_queues(self) -> None:
        """Declare a queue for each dead-letter and expiry address that has none, so that no message is lost."""
        for setting in self.settings().values():
            for name, automatic in (
                ("dead-letter-address", "auto-create-dead-letter-resources"),
                ("expiry-address", "auto-create-expiry-resources"),
            ):
                written = setting.find(name)
                if written is None or not written.text:
                    continue
                made_on_demand = setting.find(automatic)
                if made_on_demand is not None and made_on_demand.text == "true":
                    continue
                address, _, queue = written.text.partition("::")
                if not self.has_queue(address) and not self.has_divert(address):
                    self.address(address, "anycast", written.origin, queue or address)


def unique_file_name(target: Target, wanted: str) -> str:
    """Return a name for a new file in the folder of broker.xml."""
    stem, suffix = Path(wanted).stem, Path(wanted).suffix
    name, number = wanted, 1
    while name in target.files:
        number += 1
        name = f"{stem}-{number}{suffix}"
    return name
