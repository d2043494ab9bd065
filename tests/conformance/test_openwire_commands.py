"""The types of OpenWire: `openwire_commands.txt` lists them, and two modules of the engine are written from it.

Run this file as a script to write `structures.py` and `commands.py` in `protocols/artemis_openwire/engine`. A test
fails when they are not what the list says.
"""

import re
from pathlib import Path
from typing import Final

import pytest
from attrs import field, frozen

ROOT: Final = Path(__file__).resolve().parents[2]
DATA: Final = Path(__file__).with_name("openwire_commands.txt")
ENGINE: Final = ROOT / "protocols" / "artemis_openwire" / "engine"

TYPE: Final = re.compile(r"(-|\d+) (\w+)(?: : (\w+))?(?: since (\d+))? \| (.+)")
FIELD: Final = re.compile(r"  (\w+) ([\w\[\]]+)(?: since (\d+))?(?: until (\d+))?(?: default (.+))?")
PYTHON: Final = {
    "boolean": ("BOOLEAN", "bool"),
    "byte": ("BYTE", "int"),
    "int": ("INT", "int"),
    "long": ("LONG", "int"),
    "string": ("STRING", "str | None"),
    "bytes": ("BYTES", "bytes | None"),
    "octets8": ("OCTETS_8", "bytes"),
    "throwable": ("THROWABLE", "Throwable | None"),
}
"""Kinds by the names that the list has for them: the constant of the engine, and the type of the attribute."""
OTHER_NAMES: Final = {"DataStructure": "Structure", "BooleanExpression": "NetworkBridgeFilter"}
"""Types that Java knows as interfaces: what implements them on the wire."""


@frozen
class Field:
    """One field of a type."""

    name: str
    kind: str
    since: str
    until: str
    default: str

    def line(self) -> str:
        """The attribute as Python."""
        options = [f"{key}={value}" for key, value in self.options() if value]
        if self.kind in PYTHON:
            constant, annotation = PYTHON[self.kind]
        else:
            of = self.kind.removesuffix("[]")
            of = OTHER_NAMES.get(of, of)
            is_array = self.kind.endswith("[]")
            constant = "ARRAY" if is_array else "NESTED"
            element = f'"{of}"' if of in ("BrokerInfo", "ConsumerInfo") and not is_array else of
            annotation = f'"tuple[{of} | None, ...] | None"' if is_array else f"{element} | None"
            options.insert(0, f'"{of}"')
        arguments = ", ".join([f'"{self.name}"', constant, *options])
        line = f"    {snake(self.name)}: {annotation} = wire({arguments})"
        return line if len(line) <= 120 else f"    {snake(self.name)}: {annotation} = wire(\n        {arguments}\n    )"

    def options(self) -> list[tuple[str, str]]:
        """What differs from the usual field."""
        return [("since", self.since), ("until", self.until), ("default", self.default)]


@frozen
class Type:
    """One type, without the fields of its parent."""

    code: str
    name: str
    parent: str
    since: str
    summary: str
    fields: list[Field] = field(factory=list)

    def lines(self) -> list[str]:
        """The class as Python."""
        found = ["", "", "@frozen(kw_only=True)", f"class {self.name}({self.parent or 'Structure'}):"]
        found += [f'    """{self.summary}"""', ""]
        if self.code != "-":
            found.append(f"    code: ClassVar[int] = {self.code}")
        if self.since:
            found.append(f"    since: ClassVar[int] = {self.since}")
        found += [one.line() for one in self.fields]
        if found[-1] == "":
            found.pop()
        return found


def snake(name: str) -> str:
    """A wire name as an attribute of Python: `brokerURL` is `broker_url`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def read_list(text: str) -> dict[str, list[Type]]:
    """Types by the module they belong to."""
    modules: dict[str, list[Type]] = {}
    types: list[Type] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("= "):
            types = modules.setdefault(line[2:], [])
        elif found := FIELD.fullmatch(line):
            name, kind, since, until, default = found.groups("")
            types[-1].fields.append(Field(name, kind, since, until, default))
        elif found := TYPE.fullmatch(line):
            code, name, parent, since, summary = found.groups("")
            types.append(Type(code, name, parent, since, summary))
        elif line and not line.startswith("#"):
            raise ValueError(f"{DATA.name}:{number}: {line}")
    return modules


HEADS: Final = {
    "structures": '''"""Structures that commands consist of: names of connections, sessions, messages, and destinations.

Written by `python tests/conformance/test_openwire_commands.py`; change `openwire_commands.txt` beside it instead.
"""
''',
    "commands": '''"""Commands, one class each. `message_fields` and `ack_fields` read what comes often without them.

Written by `python tests/conformance/test_openwire_commands.py`; change `openwire_commands.txt` beside it instead.
"""
''',
}


def module_text(module: str, modules: dict[str, list[Type]]) -> str:
    """One module as Python."""
    types = modules[module]
    lines = [line for one in types for line in one.lines()]
    body = "\n".join(lines)
    kinds = sorted({word for word in re.findall(r"\b[A-Z][A-Z_8]+\b", body) if word in KINDS})
    from_structure = [*kinds, "Structure", *(["Throwable"] if "Throwable" in body else []), "wire"]
    imports = ["", "from typing import ClassVar", "", "from attrs import frozen", ""]
    imports += import_lines("artemis_openwire.engine.structure", from_structure)
    if module == "commands":
        known = [one.name for one in modules["structures"]]
        imports += import_lines("artemis_openwire.engine.structures", sorted(n for n in known if annotates(n, body)))
    return HEADS[module] + "\n".join(imports) + "\n" + body + "\n"


KINDS: Final = {constant for constant, _ in PYTHON.values()} | {"ARRAY", "NESTED"}


def annotates(name: str, body: str) -> bool:
    """Whether a type is named outside of quotes and docstrings, or inside of a quoted annotation."""
    return re.search(rf": (?:{name} \||\"tuple\[{name} )", body) is not None


def import_lines(module: str, names: list[str]) -> list[str]:
    """An import as ruff formats it."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= 120:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]


@pytest.mark.parametrize("module", HEADS)
def test_modules_are_what_the_list_says(module: str) -> None:
    """A field is added to the list, never to the module."""
    modules = read_list(DATA.read_text(encoding="utf-8"))

    assert (ENGINE / f"{module}.py").read_text(encoding="utf-8") == module_text(module, modules)


def test_a_line_that_is_neither_type_nor_field_is_named() -> None:
    """A mistake in the list must not drop a field."""
    with pytest.raises(ValueError, match=r"openwire_commands\.txt:3: {4}x int"):
        read_list("= commands\n1 A | a\n   x int\n")


@pytest.mark.parametrize(
    ("name", "attribute"),
    [("brokerURL", "broker_url"), ("JMSXGroupFirstForConsumer", "jmsx_group_first_for_consumer"), ("value", "value")],
)
def test_names_become_attributes(name: str, attribute: str) -> None:
    """As people would write them."""
    assert snake(name) == attribute


def main() -> None:
    """Write the modules."""
    modules = read_list(DATA.read_text(encoding="utf-8"))
    for module in HEADS:
        (ENGINE / f"{module}.py").write_text(module_text(module, modules), encoding="utf-8")


if __name__ == "__main__":
    main()
